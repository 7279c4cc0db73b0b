"""What objects of others may cost the controllers: linear in what refers to what."""

from collections.abc import Callable

from actors.controllers.garbage.graph import FOREGROUND, Graph, thing_of
from protocols.dra.allocator import Catalog
from protocols.dra.decode import slice_of
from protocols.dra.types import DeviceId
from protocols.kube.resources import CONFIGMAPS
from tests.support.growth import MOST, growth


def waiting(uid: str, *owners: str) -> dict[str, object]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": True}
        for owner in owners
    ]
    metadata = {"name": uid, "namespace": "ns", "uid": uid, "finalizers": [FOREGROUND]}
    return {"metadata": {**metadata, "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": references}}


def circles(size: int) -> Callable[[], object]:
    """`size` objects in a row, each of which the first one owns, while the last one owns the first."""
    graph = Graph()
    graph.put(thing_of(CONFIGMAPS, waiting("0", str(size))))
    for number in range(1, size + 1):
        graph.put(thing_of(CONFIGMAPS, waiting(str(number), "0", str(number - 1))))
    assert not graph.blocked("0")
    return lambda: graph.blocked("0")


def test_blocked_in_many_circles_is_linear() -> None:
    assert growth(circles, 250) < MOST


def offers(size: int) -> Callable[[], object]:
    devices = [{"name": f"d{number}"} for number in range(size)]
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": devices}
    catalog = Catalog()
    catalog.put(slice_of({"metadata": {"name": "s"}, "spec": {**spec, "nodeName": "n"}}))
    return lambda: [catalog.offer(DeviceId("d", "p", device["name"])) for device in devices]


def test_offer_of_each_device_of_a_pool_is_linear() -> None:
    assert growth(offers, 250) < MOST
