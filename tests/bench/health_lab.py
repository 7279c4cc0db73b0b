"""A plane full of hollow pods that hold devices of a plugin in the bench's own process, and a watch of the pods."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.errors import ApiAway
from protocols.kube.resources import NODES, PODS
from protocols.settings import load_settings
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from tests.bench.pods_bench import HOLLOW
from tests.support.plane import Plane
from tests.support.stub_plugin import StubPlugin

RESOURCE = "example.com/gpu"
WRITERS = 8
PATIENCE_S = 120.0


class HealthLab:
    """`pods` pods of `each` devices. Watch events are handed to `on_pod(name)` when they show other health."""

    def __init__(self, plane: Plane, pods: int, each: int) -> None:
        settings = load_settings(plane.root / "run" / "settings.json")
        certificate, key = settings.layout.client_cert("admin")
        options = ClientOptions(server=settings.api_url, ca=settings.layout.ca_cert, cert=certificate, key=key)
        self.client = ApiClient(options)
        self.names = [f"pod-{number}" for number in range(pods)]
        self.each = each
        self.health: dict[str, dict[str, str]] = {}
        """What the watch last showed: by pod, by device."""
        self.owner: dict[str, str] = {}
        """By device, its pod."""
        self.on_pod: Callable[[str], None] = lambda name: None
        self.on_event: Callable[[str], None] = lambda name: None
        self.plugin = StubPlugin(settings.layout.device_plugins, RESOURCE)
        self.plugin.devices = [pb.Device(ID=f"gpu-{n}", health="Healthy") for n in range(pods * each)]
        self.by_id = {device.ID: device for device in self.plugin.devices}
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.client.start()
        await self.plugin.start_soon()
        self._watching = asyncio.create_task(self._watch())
        await self.until("devices on the node", self._registered)
        left = iter(self.names)
        await asyncio.gather(*(self._create(left) for _ in range(WRITERS)))
        whole = len(self.by_id)
        await self.until("every device shown", lambda: sum(map(len, self.health.values())) == whole)
        self.owner = {device: pod for pod, devices in self.health.items() for device in devices}

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self.plugin.stop()
        await self.client.close()

    async def until(self, what: str, holds: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
        end = time.monotonic() + seconds
        while not (await found if asyncio.iscoroutine(found := holds()) else found):
            assert time.monotonic() < end, f"{what} did not come about within {seconds:g} s"
            await asyncio.sleep(0.02)

    def set(self, device: str, healthy: bool) -> None:
        """As the next list will say."""
        self.by_id[device].health = "Healthy" if healthy else "Unhealthy"

    def truth_is_shown(self) -> bool:
        return all(self.health[self.owner[one]].get(one) == device.health for one, device in self.by_id.items())

    async def _registered(self) -> bool:
        nodes = (await self.client.list(NODES))["items"]
        return any((n["status"].get("allocatable") or {}).get(RESOURCE) == str(len(self.by_id)) for n in nodes)

    async def bystanders(self, count: int) -> list[str]:
        """Pods that no scheduler and no node cares for."""
        names = [f"bystander-{number}" for number in range(count)]
        for name in names:
            spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "busybox:1"}]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            await self.client.create(PODS, pod, "default")
        return names

    async def _create(self, names: Any) -> None:
        for name in names:
            container = {"name": "main", "image": "busybox:1", "resources": {"limits": {RESOURCE: str(self.each)}}}
            spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": HOLLOW}, "spec": spec}
            await self.client.create(PODS, pod, "default")

    async def _watch(self) -> None:
        while True:
            with suppress(ApiAway):
                async for event in self.client.watch(PODS, "default", query={}, silence=60):
                    self._take(event["object"])

    def _take(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        entries = (entry for status in statuses for entry in status.get("allocatedResourcesStatus") or ())
        shown = {device["resourceID"]: device["health"] for entry in entries for device in entry["resources"]}
        self.on_event(name)
        if shown != self.health.get(name):
            self.health[name] = shown
            self.on_pod(name)
