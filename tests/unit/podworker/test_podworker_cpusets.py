"""Containers are kept to their CPUs, whatever happened meanwhile; nothing is done where nobody is pinned."""

import asyncio
from pathlib import Path

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.pods.containers.config import ConfigInputs, container_config
from actors.podworker.pods.cpusets import AdmittedContainer, CpusetOptions, Cpusets
from protocols.bus import FailedPrecondition, NotFound, Unavailable
from protocols.lifecycle.pods.admission import admit_request, rejection
from protocols.lifecycle.pods.types import PodSpec, read_pod
from protocols.messages.devices import ContainerGrant, Placement
from protocols.wire import cri_pb2
from tests.support.podworker_fakes import FakeRecorder, FakeRuntime, container, pod

WHOLE = {"limits": {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"}}


def spec(**resources: object) -> PodSpec:
    return read_pod(pod(container("a", resources=resources or WHOLE)))


class Scene:
    def __init__(self, shared: str = "0-3", online: str = "0-7") -> None:
        self.runtime, self.recorder = FakeRuntime(), FakeRecorder()
        self.running: list[AdmittedContainer] = []
        self.placement: Placement | None = Placement(online=online, memory=1, shared=shared)
        self.cpusets = Cpusets(
            CpusetOptions(self.runtime, self.recorder, lambda: iter(self.running), lambda: self.placement)
        )

    def add(self, id: str, cpus: str = "") -> None:
        self.running.append(AdmittedContainer(id, "a", spec(), ContainerGrant(cpus=cpus)))

    def reconcile(self) -> list[object]:
        """What was written, by container."""
        self.runtime.calls.clear()
        self.good = asyncio.run(self.cpusets.reconcile())
        return [detail for name, detail in self.runtime.calls if name == "set_cpus"]


def test_each_container_has_exclusive_or_shared_cpus_and_is_updated_once() -> None:
    scene = Scene()
    scene.add("c1", "4-5")
    scene.add("c2")
    assert scene.reconcile() == [("c1", "4-5"), ("c2", "0-3")]
    assert scene.reconcile() == []
    scene.placement = Placement(online="0-7", memory=1, shared="0-5")
    assert scene.reconcile() == [("c2", "0-5")]


def test_nothing_is_done_where_nobody_is_pinned() -> None:
    scene = Scene(shared="")
    scene.add("c1")
    assert scene.reconcile() == []
    scene.placement = None
    assert scene.reconcile() == []
    assert scene.good


def test_what_fails_is_tried_again_and_what_is_gone_is_not() -> None:
    scene = Scene()
    scene.add("c1")
    scene.runtime.fail["set_cpus"] = [Unavailable("no"), NotFound("gone")]
    assert (scene.reconcile(), scene.good) == ([("c1", "0-3")], False)
    assert (scene.reconcile(), scene.good) == ([("c1", "0-3")], True)
    assert (scene.reconcile(), scene.good) == ([("c1", "0-3")], True), "it may be another one of that id"


def test_offline_cpus_are_reported_and_left_out() -> None:
    scene = Scene(online="0-4")
    scene.add("c1", "4-5")
    assert scene.reconcile() == [("c1", "4")]
    scene.reconcile()
    assert [event[1:3] for event in scene.recorder.events] == [("CPUOffline", "CPUs 5 of container a are offline")]
    scene.placement = Placement(online="0-7", memory=1, shared="0-3")
    assert scene.reconcile() == [("c1", "4-5")]


def test_container_that_ended_with_offline_cpus_is_forgotten() -> None:
    scene = Scene(online="0-4")
    scene.add("c1", "4-5")
    scene.reconcile()
    scene.running.clear()
    scene.reconcile()
    assert scene.cpusets._offline == scene.cpusets._written == {}


def test_what_a_pod_asks_of_the_machine() -> None:
    asked = admit_request(spec(), [])
    assert asked.guaranteed
    assert asked.containers[0].cpu == 2000
    assert asked.containers[0].memory == {"memory": 1 << 30, "hugepages-2Mi": 4 << 20}
    half = admit_request(spec(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "500m"}), [])
    assert (half.guaranteed, half.containers[0].cpu) == (False, 500)


def test_refusals_keep_their_own_words() -> None:
    error = FailedPrecondition(
        "Resources cannot be allocated with Topology locality", {"reason": "TopologyAffinityError"}
    )
    found = rejection(error)
    assert found is not None
    assert found.reason == "TopologyAffinityError"
    assert found.message == "Pod was rejected: Resources cannot be allocated with Topology locality"


def test_cpus_and_nodes_are_in_the_containers_configuration(tmp_path: Path) -> None:
    def resources(grant: ContainerGrant, shared: str) -> cri_pb2.LinuxContainerResources:
        recipe = ConfigInputs(
            spec(), spec().containers[0], 0, NodeFields("n", "1.1.1.1"), tmp_path, grant=grant, shared=shared
        )
        return container_config(recipe).linux.resources

    own = resources(ContainerGrant(cpus="4-5", mems="1"), "0-3")
    assert (own.cpuset_cpus, own.cpuset_mems, own.cpu_quota) == ("4-5", "1", -1)
    shares = resources(ContainerGrant(), "0-3")
    assert (shares.cpuset_cpus, shares.cpuset_mems, shares.cpu_quota) == ("0-3", "", 200_000)
    assert resources(ContainerGrant(), "").cpuset_cpus == ""
