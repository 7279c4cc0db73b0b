"""What the device manager makes of its settings, the machine and the files that are there at its start."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from actors.devices.ledger.state import LedgerState, drop_unmanaged
from actors.devices.machine.machine_manager import MachineManager, MachineManagerOptions
from actors.devices.model.errors import MachineUnreadable, PolicyChanged
from protocols.lifecycle.devices.types import PodRecord
from protocols.messages.devices import AllocatedMemory, ContainerAllocation, PodAllocation
from protocols.node.alignment import Alignment
from tests.support.machines import GIB, Described, set_online, write_machine

DUAL = Described(sockets=2, cores_per_node=2, threads=2, memory=8 * GIB, huge={2048: 512})
STATIC: dict[str, Any] = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,4"}
MEMORY: dict[str, Any] = {
    "memoryManagerPolicy": "Static",
    "reservedMemory": {"0": {"memory": "1Gi", "hugepages-2Mi": "512Mi"}},
    "systemReserved": {"memory": "1Gi"},
}


def keeper(
    path: Path, *pods: PodAllocation, machine: Described = DUAL, foreign: bool = False, **settings: Any
) -> MachineManager:
    if not (path / "sys").exists():
        write_machine(path, machine)
    alignment = Alignment(sysfsRoot=str(path), **settings)
    return MachineManager(MachineManagerOptions(alignment, path / "kubelet", logging.getLogger("test")), pods, foreign)


def pod(uid: str, *cpus: int, memory: tuple[AllocatedMemory, ...] = ()) -> PodAllocation:
    return PodAllocation(uid, "ns", uid, (ContainerAllocation("c", cpus=cpus, memory=memory),))


def test_with_the_defaults_nothing_is_pinned(tmp_path: Path) -> None:
    found = keeper(tmp_path)
    assert (found.placer.cpus, found.placer.memory, found.placer.aligns) == (None, None, False)
    assert found.machine().cpus == ()
    assert found.machine().memory == ()
    assert (found.placement().online, found.placement().shared, found.placement().reserved) == ("0-7", "", {})
    assert found.placement().hugepages == {"hugepages-2Mi": 2 * GIB}


def test_what_is_allocatable_and_what_is_kept(tmp_path: Path) -> None:
    found = keeper(tmp_path, **STATIC, **MEMORY)
    assert found.machine().cpus == (1, 2, 3, 5, 6, 7)
    assert found.machine().memory == (
        AllocatedMemory("hugepages-2Mi", GIB // 2, (0,)),
        AllocatedMemory("memory", 6 * GIB, (0,)),
        AllocatedMemory("hugepages-2Mi", GIB, (1,)),
        AllocatedMemory("memory", 7 * GIB, (1,)),
    )
    assert found.placement().reserved == {"cpu": 2000, "memory": GIB, "hugepages-2Mi": GIB // 2}
    assert found.placement().shared == "0-7"


def test_the_pods_of_the_ledger_have_what_they_had(tmp_path: Path) -> None:
    block = AllocatedMemory("memory", 2 * GIB, (1,))
    found = keeper(tmp_path, pod("u", 1, 5, memory=(block,)), **STATIC, **MEMORY)
    assert found.placement().shared == "0,2-4,6-7"
    cpu, memory = map(json.loads, found.encoded_state())
    assert cpu["entries"] == {"u": {"c": "1,5"}}
    assert cpu["defaultCpuSet"] == "0,2-4,6-7"
    assert memory["machineState"]["1"]["memoryMap"]["memory"]["reserved"] == 2 * GIB
    assert memory["entries"]["u"]["c"] == [{"numaAffinity": [1], "type": "memory", "size": 2 * GIB}]


def test_what_a_kubelet_left_is_kept_until_it_is_known_to_be_gone(tmp_path: Path) -> None:
    first = keeper(tmp_path, pod("u", 1, 5), **STATIC)
    first.save(first.encoded_state())
    second = keeper(tmp_path, **STATIC)
    assert second.placer.placed("u", "c").cpus == {1, 5}
    assert second.placer.orphans({"u"}) == []
    assert second.placer.orphans(set()) == ["u"]
    second.placer.release("u")
    assert second.placement().shared == "0-7"


def test_after_a_kubelets_time_its_file_knows_better(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It ended our pod and gave the CPUs to another; podworker will say that ours is gone."""
    kubelets = keeper(tmp_path, pod("theirs", 1, 5), **STATIC)
    kubelets.save(kubelets.encoded_state())
    ours = keeper(tmp_path, pod("ours", 1, 5), **STATIC)
    assert [ours.placer.placed(uid, "c").cpus for uid in ("ours", "theirs")] == [{1, 5}, set()]
    back = keeper(tmp_path, pod("ours", 1, 5), foreign=True, **STATIC)
    assert [back.placer.placed(uid, "c").cpus for uid in ("ours", "theirs")] == [set(), {1, 5}]
    assert "pod ns/ours holds CPUs that another pod has too" in caplog.text


def test_a_policy_may_change_once_nobody_holds_anything(tmp_path: Path) -> None:
    first = keeper(tmp_path, pod("u", 1, 5), **STATIC)
    first.save(first.encoded_state())
    with pytest.raises(PolicyChanged) as refused:
        keeper(tmp_path, pod("u", 1, 5))
    assert str(refused.value) == (
        'could not restore state from checkpoint: configured policy "none" differs from state checkpoint policy '
        f'"static", please drain this node and delete the CPU manager checkpoint file '
        f'"{tmp_path}/kubelet/cpu_manager_state" before restarting Kubelet'
    )
    first.placer.release("u")
    first.save(first.encoded_state())
    assert keeper(tmp_path).placer.cpus is None


def test_what_nobody_guards_any_more_is_no_longer_held() -> None:
    """The state file was deleted, as the rejection says, and the policy is another one now."""
    block = AllocatedMemory("memory", GIB, (1,))
    before = LedgerState(mark=7, pods=(PodRecord(pod("u", 1, 5, memory=(block,))), PodRecord(pod("v"))))
    static = Alignment(cpuManagerPolicy="static", memoryManagerPolicy="Static")
    assert drop_unmanaged(before, static) is before
    after = drop_unmanaged(before, Alignment(memoryManagerPolicy="Static"))
    assert [record.allocation.containers[0].cpus for record in after.pods] == [(), ()]
    assert after.pods[0].allocation.containers[0].memory == (block,)
    assert after.mark > before.mark, "whoever follows must not take it for what he has"
    assert drop_unmanaged(after, Alignment(memoryManagerPolicy="Static")) is after


@pytest.mark.parametrize("garbage", [b"", b"{}", b'{"policyName"', b"\x00" * 4096])
def test_corrupt_state_files_are_kept_aside_and_made_anew_from_the_ledger(
    garbage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kubelet").mkdir()
    for name in ("cpu_manager_state", "memory_manager_state"):
        (tmp_path / "kubelet" / name).write_bytes(garbage)
    found = keeper(tmp_path, pod("u", 1), **STATIC, **MEMORY)
    assert caplog.text.count(" is corrupt: ") == 2
    assert (tmp_path / "kubelet/cpu_manager_state.corrupt").read_bytes() == garbage
    found.save(found.encoded_state())
    assert json.loads((tmp_path / "kubelet/cpu_manager_state").read_bytes())["entries"] == {"u": {"c": "1"}}


def test_cpus_that_go_and_come(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = keeper(tmp_path, pod("u", 1, 5), **STATIC)
    assert not found.refresh()
    set_online(tmp_path, DUAL, set(range(8)) - {5, 6})
    assert found.refresh()
    assert (found.machine().cpus, found.placement().online, found.placement().shared) == (
        (1, 2, 3, 7),
        "0-4,7",
        "0,2-4,7",
    )
    assert found.placer.placed("u", "c").cpus == {1, 5}, "it is still its owner's"
    set_online(tmp_path, DUAL, range(8))
    assert found.refresh()
    assert found.placement().shared == "0,2-4,6-7"
    (tmp_path / "sys/devices/system/cpu/online").write_text("nonsense")
    assert not found.refresh()
    assert found.placement().online == "0-7"


def test_a_start_with_cpus_offline_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_machine(tmp_path, DUAL)
    set_online(tmp_path, DUAL, {0, 1, 2})
    found = keeper(tmp_path, pod("u", 1, 5), **STATIC)
    assert "reserved CPUs are not online cpus=4" in caplog.text
    assert found.machine().cpus == (1, 2)
    assert found.placer.placed("u", "c").cpus == {1, 5}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cpuManagerPolicy": "static", "reservedSystemCPUs": "64-65"}, "names no CPU that is online; there are 0-7"),
        ({"cpuManagerPolicy": "static", "systemReserved": {"cpu": "9"}}, "cannot keep 9000m of CPUs"),
        ({"memoryManagerPolicy": "Static", "reservedMemory": {"5": {"memory": "1Gi"}}}, "names NUMA node 5"),
        ({"memoryManagerPolicy": "Static", "reservedMemory": {"0": {"memory": "9Gi"}}}, "keeps more memory"),
    ],
)
def test_settings_only_the_machine_can_reject(settings: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(MachineUnreadable, match=says):
        keeper(tmp_path, **settings)


def test_many_nodes_need_a_word_from_whoever_set_it_up(tmp_path: Path) -> None:
    many = Described(sockets=1, cores_per_node=1, bare_nodes=8)
    with pytest.raises(MachineUnreadable, match="unsupported on machines with more than 8 NUMA Nodes"):
        keeper(tmp_path, machine=many, topologyManagerPolicy="restricted")
    memory: dict[str, Any] = {"memoryManagerPolicy": "Static", "reservedMemory": {"0": {"memory": "1Mi"}}}
    with pytest.raises(MachineUnreadable, match="use memory policy None and topology policy none"):
        keeper(tmp_path, machine=many, **memory)
    keeper(tmp_path, machine=many, topologyManagerPolicy="none")
    allowed = {"max-allowable-numa-nodes": "9"}
    keeper(tmp_path, machine=many, topologyManagerPolicy="restricted", topologyManagerPolicyOptions=allowed)
    keeper(tmp_path, machine=many, topologyManagerPolicyOptions=allowed, **memory)
