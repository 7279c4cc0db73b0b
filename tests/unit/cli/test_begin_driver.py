"""The ResourceSlice of a driver of `nodeplane new`, kept in an API that stores values in other words."""

import importlib.util
import sys
from copy import deepcopy
from types import ModuleType
from typing import Any

import pytest

from protocols.wire import dra_v1_pb2, pluginregistration_v1_pb2
from supervisor.begin.project import TEMPLATES
from tests.support.stubs import dra_v1_pb2_grpc, pluginregistration_v1_pb2_grpc

SLICE = "n1-gpu.example.com"
STUBS = (dra_v1_pb2, dra_v1_pb2_grpc, pluginregistration_v1_pb2, pluginregistration_v1_pb2_grpc)


class Slices:
    """The API of ResourceSlices, as far as the driver calls it."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.writes = 0

    def list_cluster_custom_object(self, *path: str, **options: object) -> Any:
        return {"items": deepcopy(list(self.stored.values()))}

    def create_cluster_custom_object(self, group: str, version: str, plural: str, body: Any, **options: object) -> Any:
        self.writes += 1
        body = deepcopy(body)
        for device in body["spec"]["devices"]:
            device["capacity"]["memory"]["value"] = "1Gi"
        if not body["spec"]["devices"]:
            del body["spec"]["devices"]
        self.stored[body["metadata"]["name"]] = body
        return deepcopy(body)

    def replace_cluster_custom_object(
        self, group: str, version: str, plural: str, name: str, body: Any, **options: object
    ) -> Any:
        return self.create_cluster_custom_object(group, version, plural, body)

    def delete_cluster_custom_object(self, *path: str, **options: object) -> None:
        del self.stored[path[3]]


@pytest.fixture
def kubelet(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NODE_NAME", "n1")
    kubernetes = ModuleType("kubernetes")
    for name in ("client", "config", "watch"):
        setattr(kubernetes, name, ModuleType(name))
    kubernetes.client.CustomObjectsApi = Slices
    monkeypatch.setitem(sys.modules, "kubernetes", kubernetes)
    for module in STUBS:
        monkeypatch.setitem(sys.modules, module.__name__.rpartition(".")[2], module)
    spec = importlib.util.spec_from_file_location("begun_kubelet", TEMPLATES / "dra-driver-python" / "kubelet.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "begun_kubelet", found)
    spec.loader.exec_module(found)
    return found


def driver(kubelet: Any, devices: list[dict[str, Any]]) -> Any:
    return kubelet.Driver("gpu.example.com", lambda: devices, lambda claim, device: {}, lambda uid: None)


def gpu(name: str) -> dict[str, Any]:
    return {"name": name, "capacity": {"memory": {"value": "1024Mi"}}}


def test_slice_is_written_again_only_when_devices_change_or_somebody_edits_it(kubelet: Any) -> None:
    api, devices = Slices(), [gpu("a")]
    one = driver(kubelet, devices)
    for _ in range(3):
        one.publish(api, "")
    assert api.writes == 1
    devices.append(gpu("b"))
    one.publish(api, "")
    assert api.stored[SLICE]["spec"]["pool"] == {"name": "n1", "generation": 2, "resourceSliceCount": 1}
    api.stored[SLICE]["spec"]["devices"].pop()
    api.stored["left-behind"] = {"metadata": {"name": "left-behind"}, "spec": {"pool": {"generation": 7}}}
    for _ in range(2):
        one.publish(api, "")
    assert [device["name"] for device in api.stored[SLICE]["spec"]["devices"]] == ["a", "b"]
    assert api.stored.keys() == {SLICE}
    assert (api.stored[SLICE]["spec"]["pool"]["generation"], api.writes) == (8, 3)


def test_no_devices_are_published_once(kubelet: Any) -> None:
    api, none = Slices(), driver(kubelet, [])
    none.publish(api, "")
    none.publish(api, "")
    assert api.writes == 1


def test_two_instances_do_not_write_in_turns(kubelet: Any) -> None:
    api = Slices()
    old, new = driver(kubelet, [gpu("a")]), driver(kubelet, [gpu("a")])
    for _ in range(3):
        old.publish(api, "")
        new.publish(api, "")
    assert api.writes == 2
