"""Kubelet's admission by the node: reasons and messages of upstream's lifecycle/predicate.go."""

import copy
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.model.views import NodeLoad, node_view, pod_view
from actors.scheduler.nodes.node_cache import reasons
from protocols.bus import FailedPrecondition
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.errors import RoomTaken
from protocols.lifecycle.node.critical_pods import SYSTEM_CRITICAL
from protocols.lifecycle.node.room import NodeRoom, RoomVerdict
from protocols.lifecycle.pods.types import SOURCE, PodStage, read_pod
from tests.support.podworker_fakes import FakeNode, container, pod
from tests.support.podworker_scene import Scene, at_work

STATIC = {"annotations": {SOURCE: "file"}}
TAINT: views.Taint = {"key": "down", "value": "x", "effect": "NoExecute"}


def node(taints: Iterable[views.Taint] = (), labels: dict[str, str] | None = None, /, **allocatable: str) -> views.Node:
    found = copy.deepcopy(FakeNode().seen)
    found["spec"]["taints"] = list(taints)
    found["metadata"]["labels"] |= labels or {}
    found["status"]["allocatable"] |= {name.replace("_", "-"): amount for name, amount in allocatable.items()}
    return found


def asking(
    uid: str = "uid-1",
    ports: Iterable[int] = (),
    metadata: Object | None = None,
    spec: Object | None = None,
    limits: Object | None = None,
    requests: Object | None = None,
    **more: str,
) -> views.Pod:
    resources = {"requests": {**more, **(requests or {})}, **({"limits": limits} if limits else {})}
    taken = [{"containerPort": port, "hostPort": port} for port in ports]
    return pod(container("a", resources=resources, ports=taken), uid=uid, metadata=metadata, **(spec or {}))


def judged(
    raw: views.Pod, on: views.Node | None = None, room: NodeRoom | None = None, advertised: Collection[str] = ()
) -> Any:
    verdict = (room or NodeRoom()).admit(read_pod(raw), on or node(), advertised)
    return (verdict.rejected.reason, verdict.rejected.message) if verdict.rejected else verdict


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("raw", "reason", "message"),
    [
        (asking(cpu="900"), "OutOfcpu", "requested: 900000, used: 100, capacity: 8000"),
        (asking(memory="20Gi"), "OutOfmemory", f"requested: {20 << 30}, used: {1 << 20}, capacity: {16 << 30}"),
        (asking(requests={"ephemeral-storage": "2Ti"}), "OutOfephemeral-storage", f"used: 0, capacity: {1 << 40}"),
        (asking(requests={"hugepages-2Mi": "2Mi"}), "OutOfhugepages-2Mi", "used: 0, capacity: 0"),
        (asking(requests={"example.com/dongle": "3"}), "OutOfexample.com/dongle", "requested: 3, used: 0, capacity: 2"),
        (asking(ports=[80]), "NodePorts", "node(s) didn't have free ports for the requested pod ports"),
        (asking(spec={"nodeName": "n2"}), "NodeName", "node(s) didn't match the requested node name"),
        (asking(spec={"nodeSelector": {"zone": "b"}}), "NodeAffinity", "didn't match Pod's node affinity/selector"),
        (asking(spec={"affinity": AFFINITY}), "NodeAffinity", "didn't match Pod's node affinity/selector"),
        (asking(spec={"os": {"name": "windows"}}), "PodOSNotSupported", "Failed to admit pod as the OS field"),
        (
            asking(metadata={"labels": {"kubernetes.io/os": "windows"}}),
            "PodOSSelectorNodeLabelDoesNotMatch",
            "`kubernetes.io/os` label doesn't match node label",
        ),
    ],
)
def test_pod_that_kubelet_rejects_has_its_reason_and_message(raw: views.Pod, reason: str, message: str) -> None:
    room = NodeRoom()
    room.count(read_pod(asking("other", ports=[80], cpu="100m", memory="1Mi")))
    on = node((), {"zone": "a"}, **{"example.com/dongle": "2"})
    found = judged(raw, on, room, {"example.com/dongle"})
    assert found[0] == reason
    assert message in found[1]
    prefix = "Node didn't have enough resource: " if reason.startswith("OutOf") else "Predicate " + reason
    assert found[1].startswith((prefix, "Failed to admit pod"))


@pytest.mark.parametrize(
    ("policy", "features", "rejected"),
    [
        ("Strict", {"supplementalGroupsPolicy": False}, True),
        ("Strict", {"supplementalGroupsPolicy": True}, False),
        ("Strict", None, False),
        ("Merge", {"supplementalGroupsPolicy": False}, False),
    ],
)
def test_pod_is_rejected_by_a_runtime_that_cannot_leave_out_groups_of_the_image(
    policy: str, features: views.NodeFeatures | None, rejected: bool
) -> None:
    on = node()
    if features is not None:
        on["status"]["features"] = features
    pod = read_pod(asking(spec={"securityContext": {"supplementalGroupsPolicy": policy}}))
    verdict = NodeRoom().admit(pod, on, ())
    reason = "SupplementalGroupsPolicyNotSupported"
    assert (verdict.rejected is not None and verdict.rejected.reason == reason) is rejected


def test_full_node_and_the_first_of_several_reasons_is_upstreams() -> None:
    room = NodeRoom()
    room.count(read_pod(asking("other")))
    assert judged(asking(cpu="9", spec={"nodeSelector": {"zone": "b"}}), node(pods="1"), room) == (
        "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
    )
    room.discount("other")
    assert judged(asking(), node(pods="1"), room).admitted


def test_deferred_resizes_take_their_room_in_upstreams_order() -> None:
    room, allocatable = NodeRoom(), {"cpu": "10", "memory": "1Gi"}
    whole = {"cpu": "2", "memory": "1"}
    pods = {
        "early": asking("early", cpu="3"),
        "late": asking("late", cpu="3"),
        "guaranteed": asking("guaranteed", limits=whole, requests=whole),
        "high": asking("high", cpu="4", spec={"priority": 1}),
        "huge": asking("huge", cpu="9", spec={"priority": 2}),
    }
    specs = {uid: read_pod(raw) for uid, raw in pods.items()}
    for uid in specs:
        room.count(read_pod(asking(uid, cpu="1")))
        room.defer(specs[uid], uid != "late")
    room.discount("huge")
    assert {uid: room.capacity_for(spec, allocatable)["cpu"][1] for uid, spec in specs.items() if uid != "huge"} == {
        "high": 3000,
        "guaranteed": 3000 + 3000,
        "early": 3000 + 3000 + 1000,
        "late": 3000 + 3000 + 1000 + 2000,
    }
    room.defer(specs["high"], False)
    assert room.capacity_for(specs["guaranteed"], allocatable)["cpu"] == (10000, 3000)
    assert room.capacity_for(specs["late"], {**allocatable, "cpu": "5"})["cpu"][1] == 4000, "what does not fit waits"


def test_only_no_execute_taints_count_and_not_for_static_pods() -> None:
    tolerant = {"tolerations": [{"key": "down", "operator": "Exists", "tolerationSeconds": 1}]}
    assert judged(asking(), node([TAINT])) == (
        "TaintToleration",
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    )
    assert judged(asking(), node([{**TAINT, "effect": "NoSchedule"}])).admitted
    assert judged(asking(spec=tolerant), node([TAINT])).admitted
    assert judged(asking(metadata=STATIC), node([TAINT])).admitted
    assert judged(asking(metadata=STATIC, spec={"nodeSelector": {"zone": "b"}}))[0] == "NodeAffinity"


def test_resources_of_plugins_and_of_nobody_are_left_to_the_device_manager() -> None:
    many = asking(limits={"example.com/gpu": "9"}, requests={"example.com/gpu": "9"})
    assert judged(many, node(**{"example.com/gpu": "1"})).admitted
    by_class = {"deviceclass.resource.kubernetes.io/gpu.example.com": "1"}
    assert judged(asking(limits=by_class, requests=by_class)).admitted
    assert judged(many).admitted


def test_critical_pod_takes_the_fewest_pods_of_the_lowest_quality() -> None:
    room = NodeRoom()
    whole = {"cpu": "2", "memory": "1Gi"}
    room.count(read_pod(asking("guaranteed", limits=whole, requests=whole)))
    for uid, cpu in (("small", "1"), ("large", "3"), ("best", "0")):
        room.count(read_pod(asking(uid, cpu=cpu)))
    critical = asking("critical", cpu="4", spec={"priority": SYSTEM_CRITICAL})
    assert judged(critical, room=room) == RoomVerdict(preempt=("large",))
    with pytest.raises(RoomTaken, match="waits until 1 preempted pods ended"):
        room.settle(read_pod(critical), RoomVerdict(preempt=("large",)))
    room.discount("small")
    assert judged(critical, room=room) == RoomVerdict(preempt=("large",)), "no other one ends while it waits"
    room.discount("large")
    assert judged(critical, room=room).admitted
    assert judged(asking("more", cpu="4", metadata=STATIC), room=room) == RoomVerdict(preempt=("guaranteed",))
    reason, text = judged(asking("more", cpu="9", metadata=STATIC), room=room)
    assert reason == "UnexpectedAdmissionError"
    assert text.endswith("no set of running pods found to reclaim resources: [(res: cpu, q: 7000), ]")
    assert judged(asking("plain", cpu="4"), room=room)[0] == "OutOfcpu"


PODS = st.lists(
    st.builds(
        lambda cpu, memory, ports, zone: (cpu, memory, sorted(ports), zone),
        st.integers(0, 5000),
        st.integers(0, 6000),
        st.sets(st.sampled_from([80, 81]), max_size=2),
        st.sampled_from(["", "a", "b"]),
    ),
    max_size=8,
)


@given(PODS)
def test_node_admits_what_the_scheduler_places(pods: list[tuple[int, int, list[int], str]]) -> None:
    """Both count the same: a pod that fits for the one fits for the other."""
    on = node((), {"zone": "a"}, pods="6")
    on["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    room, load = NodeRoom(), NodeLoad(node_view(on))
    for number, (cpu, memory, ports, zone) in enumerate(pods):
        spec = {"nodeSelector": {"zone": zone}} if zone else {}
        raw = asking(f"uid-{number}", ports, cpu=f"{cpu}m", memory=f"{memory}Mi", spec=spec)
        fits = not reasons(pod_view(raw), load)
        assert (judged(raw, on, room) == RoomVerdict()) == fits
        if fits:
            load.count(pod_view(raw))


async def test_worker_rejected_pod_is_failed_with_event_and_never_reaches_the_device_manager(tmp_path: Path) -> None:
    scene = Scene(tmp_path, asking(cpu="900"))
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        text = "Node didn't have enough resource: cpu, requested: 900000, used: 0, capacity: 8000"
        assert (scene.status["reason"], scene.status["message"]) == ("OutOfcpu", f"Pod was rejected: {text}")
        assert scene.fake.recorder.events == [("Warning", "OutOfcpu", text)]
        assert not scene.fake.devices.admitted
        assert not scene.fake.runtime.calls


async def test_worker_reads_the_node_again_before_it_rejects(tmp_path: Path) -> None:
    scene = Scene(tmp_path, asking(spec={"nodeSelector": {"zone": "a"}}))
    scene.fake.local_node.read = node((), {"zone": "a"})
    async with at_work(scene):
        await scene.running()


async def test_room_of_a_pod_is_free_once_it_ended_or_its_devices_were_rejected(tmp_path: Path) -> None:
    scene = Scene(tmp_path, asking(cpu="8"))
    other = asking("other", cpu="8")
    async with at_work(scene):
        await scene.running()
        assert judged(other, room=scene.room)[0] == "OutOfcpu"
        scene.delete()
        await scene.until(lambda: scene.worker.state.stage is PodStage.FINISHED)
        assert judged(other, room=scene.room).admitted
    scene.room.discount("other")
    scene = Scene(tmp_path, asking(cpu="8"), room=scene.room)
    scene.fake.devices.fail = [FailedPrecondition("no", {"reason": "UnexpectedAdmissionError"})]
    async with at_work(scene):
        await scene.until(lambda: scene.status.get("phase") == "Failed")
        assert judged(other, room=scene.room).admitted
