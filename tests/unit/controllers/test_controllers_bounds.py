"""The cost of the controllers' graph and catalog is linear in the number of references."""

from collections.abc import Callable

from actors.controllers.garbage.graph import FOREGROUND, Graph, graph_node
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.decode import slice_of
from protocols.dra.types import DeviceId
from protocols.kinds.table import CONFIGMAPS
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
    graph.put(graph_node(CONFIGMAPS, waiting("0", str(size))))
    for number in range(1, size + 1):
        graph.put(graph_node(CONFIGMAPS, waiting(str(number), "0", str(number - 1))))
    assert not graph.blocked("0")
    return lambda: graph.blocked("0")


def test_blocked_with_many_owner_cycles_is_linear() -> None:
    assert growth(circles, 250) < MOST


def devices(size: int) -> Callable[[], object]:
    devices = [{"name": f"d{number}"} for number in range(size)]
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": devices}
    catalog = Catalog()
    catalog.put(slice_of({"metadata": {"name": "s"}, "spec": {**spec, "nodeName": "n"}}))
    return lambda: [catalog.device(DeviceId("d", "p", device["name"])) for device in devices]


def test_catalog_offer_of_all_devices_is_linear() -> None:
    assert growth(devices, 250) < MOST
