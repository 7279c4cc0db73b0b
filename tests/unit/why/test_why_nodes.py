"""`nodeplane why` of pods, drivers and claims on several nodes, some of which run elsewhere, and beside a kubelet."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocols.bus import Bus, BusOptions
from protocols.dra.gates import Gates
from protocols.kinds.table import NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object
from protocols.messages.devices import DeviceHealth, DraDriver
from protocols.process.layout import layout
from protocols.process.settings import save_settings
from supervisor.base.errors import NotRunning, UsageError
from supervisor.client.devices import DeviceRow
from supervisor.client.drivers import DriverRow, DriversView
from supervisor.why.gather.live import LiveSources
from supervisor.why.gather.others import gather_claim, gather_device, gather_plugin
from supervisor.why.gather.pod import gather_pod
from supervisor.why.gather.replay import ReplaySources
from supervisor.why.gather.sources import DeviceManager, Sources
from supervisor.why.model.types import DriverEvidence
from supervisor.why.others.claims import diagnose_claim
from supervisor.why.others.devices import diagnose_device, diagnose_driver
from supervisor.why.pods.diagnose import diagnose_pod
from tests.support.settings import plane_settings

GPU, DRIVER = "example.com/gpu", "gpu.example.com"
READY = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {GPU: "2"}}


class Objects:
    """An API with these objects; a user may not list those of `forbidden` but for its own node."""

    def __init__(self, objects: Mapping[Resource, list[Object]], forbidden: Resource | None = None) -> None:
        self._objects, self._forbidden = objects, forbidden

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        for each in self._objects.get(resource, ()):
            if each["metadata"]["name"] == name:
                return each
        raise ApiError(404, {"message": "not found"})

    async def list(self, resource: Resource, namespace: str = "", field_selector: str = "", **_: Any) -> Object:
        if resource is self._forbidden and "spec.nodeName=n1" not in field_selector:
            raise ApiError(403, {"message": "forbidden"})
        return {"items": self._objects.get(resource, [])}


class Nodes:
    """Sources of the first of some nodes, each with its device manager."""

    node_name, gates = "n1", Gates()

    def __init__(self, client: Objects, *managers: DeviceManager) -> None:
        self.client, self._managers = client, dict(zip(("n1", "n2"), managers, strict=False))
        self._node = "n1"

    def now(self) -> float:
        return 1_800_000_000.0

    def other_nodes(self) -> list[str]:
        return [name for name in self._managers if name != self.node_name]

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[Sources]:
        near = Nodes(self.client, *self._managers.values())
        near._node = name if name in self._managers else self._node
        found: Any = near
        yield found

    async def device_manager(self) -> DeviceManager:
        return self._managers[self._node]

    async def trace(self, namespace: str, name: str) -> Any:
        raise UsageError("no process has spans of it")

    async def log(self, *_: Any) -> str:
        raise ApiError(404, {"message": "no log"})


def sources(*managers: DeviceManager, forbidden: Resource | None = None, **objects: list[Object]) -> Any:
    kinds = {"pods": PODS, "nodes": NODES, "claims": RESOURCECLAIMS, "slices": RESOURCESLICES}
    return Nodes(Objects({kinds[name]: found for name, found in objects.items()}, forbidden), *managers)


def pod(node: str = "", **status: Any) -> Object:
    container = {"name": "main", "image": "box", "resources": {"limits": {GPU: "1"}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending", **status}}


def node(name: str, **status: Any) -> Object:
    return {"kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {**READY, **status}}


async def test_pod_of_a_node_elsewhere_does_not_wait_for_a_plugin_of_this_one() -> None:
    found = await gather_pod(sources(DeviceManager(), pods=[pod("n3")], nodes=[node("n3")]), "default", "p")
    shown = diagnose_pod(found)
    assert (shown.state, shown.reason) == ("waiting for its node", "node n3 has reported nothing of it yet")
    assert shown.evidence == (
        "node n3 runs elsewhere: its devices, calls and steps are known there, with the --root of that node",
    )


async def test_pod_of_a_simulated_node_is_explained_by_its_fleet() -> None:
    simulated = node("gpus-1")
    simulated["metadata"]["labels"] = {"nodeplane.dev/fleet": "lab"}
    found = await gather_pod(sources(DeviceManager(), pods=[pod("gpus-1")], nodes=[simulated]), "default", "p")
    assert diagnose_pod(found).evidence == ("node gpus-1 is simulated; see `nodeplane fleet status --name lab`",)
    with pytest.raises(UsageError, match="by node gpus-1, which is simulated; see `nodeplane fleet status --name lab`"):
        await gather_plugin(sources(DeviceManager(), nodes=[simulated]), GPU)


async def test_plugin_that_only_a_node_elsewhere_has_is_not_called_unregistered() -> None:
    elsewhere = sources(DeviceManager(), pods=[pod()], nodes=[node("n1", allocatable={}), node("n3")])
    assert (await gather_pod(elsewhere, "default", "p")).plugins == ()
    nowhere = sources(DeviceManager(), pods=[pod()], nodes=[node("n1")])
    (plugin,) = (await gather_pod(nowhere, "default", "p")).plugins
    assert (plugin.resource, plugin.known) == (GPU, False)


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "SignatureValidationFailed"])
async def test_pod_beside_a_kubelet_waits_for_what_its_status_says(reason: str) -> None:
    waiting = {"waiting": {"reason": reason, "message": "back-off"}}
    status = {"startTime": "2026-11-28T12:00:00Z", "containerStatuses": [{"name": "main", "state": waiting}]}
    row = DeviceRow(GPU, "gpu-0", (), "Healthy", "", "default/p", ("main",))
    kubelet = DeviceManager(kubelet=True, rows=(row,))
    found = await gather_pod(sources(kubelet, pods=[pod("n7", **status)], nodes=[node("n7")]), "default", "p")
    shown = diagnose_pod(found)
    assert (shown.state, shown.reason) == (
        "waiting for its image",
        f"image 'box' of container main: {reason}: back-off",
    )
    assert found.devices == (row,)
    assert found.unread == ("node n7 runs a kubelet, which reports neither calls nor steps",)
    with pytest.raises(UsageError, match="nodeplane capture --kubelet"):
        await gather_plugin(sources(kubelet), GPU)


def manager_with(connected: bool) -> DeviceManager:
    return DeviceManager(drivers=DriversView((DriverRow(DraDriver(DRIVER, connected, endpoints=("/s",)), 0),), ()))


def slices(*nodes: str) -> list[Object]:
    return [{"metadata": {"name": each}, "spec": {"driver": DRIVER, "nodeName": each}} for each in nodes]


async def driver(*managers: DeviceManager, nodes: tuple[str, ...]) -> DriverEvidence:
    found = await gather_plugin(sources(*managers, slices=slices(*nodes)), DRIVER)
    assert isinstance(found, DriverEvidence)
    return found


async def test_driver_is_found_on_the_node_that_it_serves() -> None:
    assert diagnose_driver(await driver(DeviceManager(), manager_with(True), nodes=("n2",))).state == "serves"
    both = await driver(manager_with(False), manager_with(True), nodes=("n1", "n2"))
    assert diagnose_driver(both).state == "serves"
    elsewhere = diagnose_driver(await driver(DeviceManager(), nodes=("n3",)))
    assert elsewhere.reason == (
        "no driver of this name has registered; it has published 1 ResourceSlice for n3, which runs elsewhere"
    )
    many = diagnose_driver(await driver(DeviceManager(), nodes=tuple(f"n{at}" for at in range(3, 1_003))))
    assert many.reason.endswith("for n10, n100, n1000, n1001, n1002 and 995 more, which run elsewhere")


async def test_plugin_of_a_node_elsewhere_is_asked_for_there() -> None:
    with pytest.raises(UsageError, match=f"{GPU} is offered by node n3, which runs elsewhere"):
        await gather_plugin(sources(DeviceManager(), nodes=[node("n1", allocatable={}), node("n3")]), GPU)
    many = [node(f"n{at}") for at in range(3, 203)]
    with pytest.raises(UsageError, match="n3, n4, n5, n6, n7 and 195 more, which runs elsewhere"):
        await gather_plugin(sources(DeviceManager(), nodes=many), GPU)
    with pytest.raises(UsageError, match="no plugin or driver is called"):
        await gather_plugin(sources(DeviceManager(), forbidden=NODES), GPU)


async def test_user_of_a_node_is_shown_what_its_node_has() -> None:
    mine = await gather_plugin(sources(manager_with(True), forbidden=RESOURCESLICES, slices=slices("n1")), DRIVER)
    assert isinstance(mine, DriverEvidence)
    assert mine.slices == 1
    claim = {"metadata": {"name": "c", "uid": "u"}, "status": {}}
    found = await gather_claim(sources(DeviceManager(), forbidden=PODS, claims=[claim]), "default", "c")
    assert found.users == ()


async def test_device_of_a_node_elsewhere_is_not_called_unknown() -> None:
    pool = {"name": "n3", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n3", "devices": [{"name": "gpu-0"}], "pool": pool}
    name, published = f"{DRIVER}/n3/gpu-0", [{"metadata": {"name": "s"}, "spec": spec}]
    result = {"driver": DRIVER, "pool": "n3", "device": "gpu-0"}
    claim = {
        "metadata": {"name": "c", "namespace": "default", "uid": "u"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    found = await gather_device(sources(DeviceManager(), slices=published, claims=[claim]), name)
    shown = diagnose_device(found)
    assert (shown.state, shown.reason) == (
        "held",
        "claim default/c holds it; its node n3 runs elsewhere, its health and its driver are known there",
    )
    assert shown.evidence == ("published in ResourceSlice s for node n3",)
    spec["nodeName"] = "n1"
    beside = await gather_device(sources(DeviceManager(kubelet=True), slices=published, claims=[claim]), name)
    assert diagnose_device(beside).reason == "claim default/c holds it"


async def test_claim_shows_the_health_of_a_device_of_another_node() -> None:
    name = f"{DRIVER}/n2/gpu-0"
    sick = DeviceManager(health={name: DeviceHealth("", name, "Unhealthy", "fan")})
    result = {"driver": DRIVER, "pool": "n2", "device": "gpu-0"}
    claim = {"metadata": {"name": "c", "uid": "u"}, "status": {"allocation": {"devices": {"results": [result]}}}}
    found = await gather_claim(sources(DeviceManager(), sick, claims=[claim]), "default", "c")
    assert f"device {name} is Unhealthy: fan" in diagnose_claim(found).reason


async def test_name_that_a_user_may_not_list_has_no_hint() -> None:
    with pytest.raises(UsageError, match="no pod is called 'default/p'; `kubectl"):
        await gather_pod(sources(DeviceManager(), forbidden=PODS), "default", "p")


async def test_sources_of_a_further_node_know_the_first_one_and_do_not_wait_for_a_stopped_one(tmp_path: Path) -> None:
    plane = layout(str(tmp_path))
    for where in (plane, plane.node("n1-2")):
        where.run.mkdir(parents=True)
    save_settings(plane.settings, plane_settings(tmp_path))
    client: Any = None
    first, second = (
        LiveSources(client, Bus(BusOptions(name="", run_dir=run)), plane) for run in (plane.run, plane.node("n1-2").run)
    )
    assert (first.node_name, first.other_nodes()) == ("n1", ["n1-2"])
    assert (second.node_name, second.other_nodes()) == ("n1-2", ["n1"])
    with pytest.raises(NotRunning):
        await second.device_manager()


async def test_recorded_nodes_know_each_other() -> None:
    recording: Any = SimpleNamespace(header=SimpleNamespace(node="n1"))
    first = ReplaySources(recording, 0, "", {"supervisors": {}, "n1-2/supervisors": {}})
    assert (first.node_name, first.other_nodes()) == ("n1", ["n1-2"])
    async with first.node("n1-2") as second:
        assert (second.node_name, second.other_nodes()) == ("n1-2", ["n1"])
        async with second.node("n1") as back:
            assert back.node_name == "n1"
