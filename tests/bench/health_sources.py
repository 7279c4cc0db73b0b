"""Where the devices of the health benches come from: a device plugin or a DRA driver in the bench's own process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from protocols.kinds.table import NODES, RESOURCECLAIMS
from protocols.kube.quantity import parse_quantity
from protocols.kubeclient.client import ApiClient
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import drahealth_v1_pb2 as health
from protocols.wire.plugins import HEALTH_V1
from tests.support.stub_driver import StubDriver, told_health
from tests.support.stub_plugin import StubPlugin

RESOURCE, DRIVER = "example.com/gpu", "gpu.example.com"
POOL = "n1"


class Source(Protocol):
    truth: dict[str, bool]
    """By resourceID of a pod's status: is it healthy? Change it by `set`."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def ready(self, client: ApiClient) -> bool:
        """The node can give the devices out."""
        ...

    async def spec(self, client: ApiClient, name: str, count: int) -> dict[str, Any]:
        """Of a pod with so many of them, less its containers' names and images; what it needs in the API is made."""
        ...

    def set(self, device: str, healthy: bool) -> None:
        """As the next report will say."""
        ...

    def change(self) -> None:
        """Report."""
        ...


class PluginSource:
    def __init__(self, kubelet: Path, count: int) -> None:
        self.plugin = StubPlugin(kubelet / "device-plugins", RESOURCE)
        self.plugin.devices = [pb.Device(ID=f"gpu-{n}", health="Healthy") for n in range(count)]
        self._by_id = {device.ID: device for device in self.plugin.devices}
        self.truth = dict.fromkeys(self._by_id, True)

    async def start(self) -> None:
        await self.plugin.start_soon()

    async def stop(self) -> None:
        await self.plugin.stop()

    async def ready(self, client: ApiClient) -> bool:
        """The node may write its number in any form of a quantity: 1k."""
        nodes = (await client.list(NODES))["items"]
        amounts = ((node["status"].get("allocatable") or {}).get(RESOURCE, "0") for node in nodes)
        return parse_quantity(len(self.truth)) in map(parse_quantity, amounts)

    async def spec(self, client: ApiClient, name: str, count: int) -> dict[str, Any]:
        return {"containers": [{"resources": {"limits": {RESOURCE: str(count)}}}]}

    def set(self, device: str, healthy: bool) -> None:
        self.truth[device] = healthy
        self._by_id[device].health = "Healthy" if healthy else "Unhealthy"

    def change(self) -> None:
        self.plugin.change()


class DriverSource:
    """Its claims come allocated: the bench is of health, not of the scheduler."""

    def __init__(self, kubelet: Path, count: int) -> None:
        self.driver = StubDriver(kubelet, DRIVER)
        self.driver.info.supported_versions.append(HEALTH_V1)
        names = [f"gpu-{n}" for n in range(count)]
        told = [told_health(name, pool=POOL, health_check_timeout_seconds=3600) for name in names]
        self.driver.health = told
        self._by_id = {f"{DRIVER}/{POOL}/{name}": one for name, one in zip(names, told, strict=True)}
        self.truth = dict.fromkeys(self._by_id, True)
        self._left: Iterator[str] = iter(names)

    async def start(self) -> None:
        await self.driver.start()

    async def stop(self) -> None:
        await self.driver.stop()

    async def ready(self, client: ApiClient) -> bool:
        return any(status.plugin_registered for status in self.driver.told) and self.driver.streams > 0

    async def spec(self, client: ApiClient, name: str, count: int) -> dict[str, Any]:
        mine = [next(self._left) for _ in range(count)]
        claim = await client.create(RESOURCECLAIMS, _claim(name, count), "default")
        self.driver.devices[claim["metadata"]["uid"]] = [
            v1.Device(pool_name=POOL, device_name=one, request_names=["gpu"]) for one in mine
        ]
        results = [{"request": "gpu", "driver": DRIVER, "pool": POOL, "device": one} for one in mine]
        claim["status"] = {"allocation": {"devices": {"results": results}}}
        await client.update(RESOURCECLAIMS, claim, "default", subresource="status")
        claims = [{"name": "gpu", "resourceClaimName": name}]
        return {"resourceClaims": claims, "containers": [{"resources": {"claims": [{"name": "gpu"}]}}]}

    def set(self, device: str, healthy: bool) -> None:
        self.truth[device] = healthy
        self._by_id[device].health = health.HEALTHY if healthy else health.UNHEALTHY

    def change(self) -> None:
        self.driver.change()


def _claim(name: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec,
    }
