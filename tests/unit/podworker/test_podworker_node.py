from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from actors.podworker.node.machine import read_machine
from actors.podworker.node.status_updater import GRACE_S, Readiness
from protocols.kinds import views
from protocols.lifecycle.node.status import (
    MachineInfo,
    NodeStatusInputs,
    heartbeat_patch,
    is_ready,
    new_node,
    node_events,
    node_patch,
    node_status,
)
from protocols.messages.cri import RuntimeHandler
from protocols.messages.devices import Device, Placement, ResourceInventory
from protocols.messages.podworker import INSTANCE
from protocols.process.layout import layout

MACHINE = MachineInfo("10.0.0.5", 4, 1024, 2048, "amd64", "6.1", "Debian", "mid", "bid")
T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


def view(ready: bool = True, inventory: Mapping[str, ResourceInventory] | None = None, **more: Any) -> NodeStatusInputs:
    return NodeStatusInputs(name="n1", machine=MACHINE, ready=ready, inventory=inventory, **more)


def gpus(*health: str, connected: bool = True) -> dict[str, ResourceInventory]:
    devices = tuple(Device("example.com/gpu", f"g{n}", health=state) for n, state in enumerate(health))
    return {"example.com/gpu": ResourceInventory("example.com/gpu", connected, devices)}


def test_node_status_allocatable_pods_are_those_of_the_flag() -> None:
    status = node_status(view(max_pods=250), {"capacity": {"pods": "110"}}, T1)
    assert (status["capacity"]["pods"], status["allocatable"]["pods"]) == ("250", "250")
    assert node_status(view(max_pods=1000), {}, T1)["capacity"]["pods"] == "1k", "as the API stores it"


def test_a_new_node() -> None:
    node = new_node(view(ready=False, message="container runtime is down"), T1)
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert not is_ready(node)
    assert node["status"]["conditions"][-1]["reason"] == "KubeletNotReady"
    assert node["status"]["capacity"] == {
        "cpu": "4",
        "memory": "1Mi",
        "ephemeral-storage": "2Mi",
        "pods": "110",
    }
    features = ["ExtendWebSocketsToKubelet", "RestartAllContainersOnContainerExits"]
    assert node["status"]["declaredFeatures"] == features


def test_devices_count_and_vanished_ones_stay_as_zero() -> None:
    status = node_status(view(inventory=gpus("Healthy", "Unhealthy", "Healthy")), {}, T1)
    assert (status["capacity"]["example.com/gpu"], status["allocatable"]["example.com/gpu"]) == ("3", "2")
    lost = node_status(view(inventory=gpus("Healthy", connected=False)), status, T1)
    assert (lost["capacity"]["example.com/gpu"], lost["allocatable"]["example.com/gpu"]) == ("1", "0")
    gone = node_status(view(inventory={}), status, T1)
    assert (gone["capacity"]["example.com/gpu"], gone["allocatable"]["example.com/gpu"]) == ("0", "0")


def test_devices_not_heard_of_yet_are_left_alone() -> None:
    status = node_status(view(inventory=gpus("Healthy")), {}, T1)
    assert node_patch(status, node_status(view(inventory=None), status, T2)) is None


def test_runtime_handlers_are_published_and_retained_while_the_runtime_is_unknown() -> None:
    handlers = (RuntimeHandler("", recursive_read_only=True), RuntimeHandler("kata", user_namespaces=True))
    status = node_status(view(handlers=handlers), {}, T1)
    assert status["runtimeHandlers"] == [
        {"name": "", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": False}},
        {"name": "kata", "features": {"recursiveReadOnlyMounts": False, "userNamespaces": True}},
    ]
    assert node_patch(status, node_status(view(), status, T2)) is None
    assert "runtimeHandlers" not in node_status(view(), {}, T1)


def test_policy_of_groups_is_published_and_retained_while_the_runtime_is_unknown() -> None:
    status = node_status(view(strict_groups=True), {}, T1)
    assert status["features"] == {"supplementalGroupsPolicy": True}
    assert node_patch(status, node_status(view(), status, T2)) is None
    assert node_status(view(strict_groups=False), status, T2)["features"] == {"supplementalGroupsPolicy": False}
    assert "features" not in node_status(view(), {}, T1)


def test_patched_only_when_something_changed() -> None:
    status = node_status(view(), {}, T1)
    same = node_status(view(), status, T2)
    assert node_patch(status, same) is None
    down = node_status(view(ready=False, message="x"), status, T2)
    patch = node_patch(status, down)
    assert patch is not None
    assert [c["type"] for c in patch["status"]["conditions"]] == ["Ready"]
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == T2
    beat = heartbeat_patch(same, T2)
    assert {c["lastHeartbeatTime"] for c in beat["status"]["conditions"]} == {T2}
    assert {c["lastTransitionTime"] for c in beat["status"]["conditions"]} == {T1}


def test_short_absences_do_not_make_the_node_unready() -> None:
    readiness = Readiness()
    assert not readiness.ready(0)
    readiness.observe((), 1)
    assert readiness.ready(1)
    readiness.observe(("pleg is silent",), 50)
    assert readiness.ready(51)
    assert readiness.recheck_in(51) == GRACE_S - 1
    assert not readiness.ready(50 + GRACE_S)
    readiness.observe((), 100)
    assert readiness.ready(100)


def test_readiness_overdue_fault_has_no_grace() -> None:
    """The threshold of PLEG, 3 minutes, has passed when it reports itself unhealthy."""
    readiness = Readiness()
    readiness.observe((), 1)
    readiness.observe(("PLEG is not healthy",), 181, overdue=True)
    assert not readiness.ready(181)
    assert readiness.recheck_in(181) is None
    readiness.observe((), 182)
    assert readiness.ready(182)


def test_a_restart_keeps_ready_for_the_grace_only() -> None:
    readiness = Readiness()
    readiness.adopt(0)
    readiness.observe(("not yet",), 1)
    assert readiness.ready(1)
    assert not readiness.healthy
    assert not readiness.ready(GRACE_S + 1)


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    machine = read_machine(layout(str(tmp_path)), "")
    assert machine.cpus > 0
    assert machine.memory_kib > 0
    assert machine.storage_kib > 0
    assert machine.address.count(".") == 3


def test_node_transitions_give_one_event() -> None:
    first = node_status(view(ready=False), {}, T1)
    told = [reason for _, reason, _ in node_events("n1", {}, first)]
    assert told == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeNotReady"]
    ready = node_status(view(), first, T2)
    assert node_events("n1", first, ready) == [("Normal", "NodeReady", "Node n1 status is now: NodeReady")]
    assert node_events("n1", ready, node_status(view(), ready, T2)) == []
    info: views.NodeSystemInfo = {**ready["nodeInfo"], "bootID": "earlier"}
    before: views.NodeStatus = {**ready, "nodeInfo": info}
    assert [(kind, reason) for kind, reason, _ in node_events("n1", before, ready)] == [("Warning", "Rebooted")]


def test_the_machine_is_what_devices_says_of_it_less_what_is_kept() -> None:
    kept = {"cpu": 1500, "memory": 1 << 20, "hugepages-2Mi": 2 << 20, "ephemeral-storage": 1024}
    placement = Placement(online="0-3,6", memory=64 << 20, hugepages={"hugepages-2Mi": 8 << 20}, reserved=kept)
    status = node_status(view(placement=placement), {}, T1)
    assert status["capacity"] == {
        "cpu": "5",
        "memory": "64Mi",
        "hugepages-2Mi": "8Mi",
        "ephemeral-storage": "2Mi",
        "pods": "110",
    }
    assert status["allocatable"] == {
        "cpu": "3500m",
        "memory": "55Mi",
        "hugepages-2Mi": "6Mi",
        "ephemeral-storage": "2047Ki",
        "pods": "110",
    }
    silent = node_status(view(placement=None), status, T2)
    assert silent["allocatable"] == status["allocatable"]


def test_what_is_kept_of_more_than_is_online_leaves_nothing() -> None:
    kept = {"cpu": 1500, "memory": 2 << 20}
    placement = Placement(online="0", memory=1 << 20, reserved=kept)
    allocatable = node_status(view(placement=placement), {}, T1)["allocatable"]
    assert (allocatable["cpu"], allocatable["memory"]) == ("0", "0")


def test_a_root_has_one_instance_for_ever(tmp_path: Path) -> None:
    where = layout(str(tmp_path))
    where.run.mkdir()
    first, second = read_machine(where, ""), read_machine(where, "10.0.0.9")
    assert first.instance == second.instance != ""
    assert second.address == "10.0.0.9"
    assert not second.local
    assert new_node(NodeStatusInputs("n1", first, True), T1)["metadata"]["annotations"] == {INSTANCE: first.instance}


def test_a_node_that_is_reached_at_its_address_has_no_local_name_left() -> None:
    here = node_status(view(), {}, T1)
    far = NodeStatusInputs("n1", msgspec.structs.replace(MACHINE, local=False), True)
    there = node_status(far, here, T2)
    assert [address["type"] for address in there["addresses"]] == ["InternalIP", "Hostname"]
    patch = node_patch(here, there)
    assert patch is not None
    assert patch["status"]["addresses"][0] == {"$patch": "replace"}
