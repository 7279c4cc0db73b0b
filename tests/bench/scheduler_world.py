"""Nodes with devices, pods with a claim each, and who sees them bound: what the benches of the scheduler share."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from protocols.kinds.table import DEVICECLASSES, LEASES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.kube.meta import name_of
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiClient, ClientOptions, Object
from tests.support.apiserver_plane import Plane

DRIVER = "gpu.example.com"
WRITERS = 12
Written = Iterable[tuple[Resource, Object]]


def client_of(plane: Plane) -> ApiClient:
    cert, key = plane.settings.layout.client_cert("admin")
    return ApiClient(ClientOptions(server=plane.url, ca=plane.settings.layout.ca_cert, cert=cert, key=key))


async def create_each(client: ApiClient, objects: Written) -> None:
    left = iter(objects)

    async def write() -> None:
        for resource, obj in left:
            namespace = "kube-node-lease" if resource is LEASES else "default"
            await client.create(resource, obj, namespace if resource.namespaced else "")
            if resource is NODES:
                await client.update(resource, {**obj, "status": _status()}, "", "status")
                if "lonely" in obj["metadata"].get("labels", {}):
                    await client.patch(resource, obj["metadata"]["name"], "", {"spec": {"taints": None}})

    await asyncio.gather(*(write() for _ in range(WRITERS)))


class Bindings:
    """Sees pods being bound."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.at: dict[str, float] = {}
        """When each was seen bound."""
        self._left = 0

    def expect(self, count: int) -> None:
        self.done.clear()
        self._left = count
        self.at.clear()

    def on_add(self, obj: Object) -> None:
        if obj["spec"].get("nodeName") and name_of(obj) not in self.at:
            self.at[name_of(obj)] = time.perf_counter()
            self._left -= 1
            if self._left == 0:
                self.done.set()

    def on_update(self, old: Object, new: Object) -> None:
        self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        """Of the round before."""


def slim(pod: Object) -> Object:
    return {"metadata": pod["metadata"], "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName")}}


def node_names(count: int) -> list[str]:
    return [f"n{at:04}" for at in range(count)]


def world(nodes: int, devices: int, leases: bool = True) -> Written:
    """Without leases no controllers are expected: nodes lose the taint they are created with at once."""
    yield DEVICECLASSES, thing(DEVICECLASSES, "gpu", {"selectors": [cel(f'device.driver == "{DRIVER}"')]})
    for name in node_names(nodes):
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **({} if leases else {"lonely": ""})}}
        yield NODES, {**thing(NODES, name, {}), "metadata": metadata, "status": _status()}
        yield RESOURCESLICES, thing(RESOURCESLICES, f"{name}-gpu", slice_of(name, devices))
        if leases:
            lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now_micro()}
            yield LEASES, thing(LEASES, name, lease)


def slice_of(node: str, devices: int, driver: str = DRIVER) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [
        {
            "name": f"gpu-{at}",
            "attributes": {"model": {"string": "A"}, "index": {"int": at}, "group": {"int": at % 5}},
        }
        for at in range(devices)
    ]
    return {"driver": driver, "nodeName": node, "pool": pool, "devices": listed}


def _status() -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {"allocatable": amounts, "capacity": amounts, "conditions": conditions}


def pod(name: str, expression: str = f'device.attributes["{DRIVER}"].model == "A"') -> Written:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": [cel(expression)]}}
    return pod_with(name, {"requests": [request]})


def pod_with(name: str, devices: Object) -> Written:
    yield RESOURCECLAIMS, thing(RESOURCECLAIMS, name, {"devices": devices})
    container = {"name": "main", "image": "busybox:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    yield PODS, thing(PODS, name, spec)


def cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def thing(resource: Resource, name: str, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
