"""Devices, CPUs and memory of a pod are chosen together (scenarios S15, S19, S20 of the device facts)."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from actors.devices.machine.machine_manager import make_placer
from actors.devices.machine.placer import InitResources
from actors.devices.machine.sysfs import read_hardware
from actors.devices.model.errors import TopologyAffinity
from protocols.lifecycle.devices.types import DeviceKey, PluginDevice, PluginOptions
from protocols.lifecycle.errors import AdmissionRejected
from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.node.alignment import Alignment
from tests.support.alignment_node import GPU, TWO, Node, container
from tests.support.machines import GIB, Described, write_machine

NIC = "example.com/nic"


def four(path: Path, policy: str, **more: Any) -> Node:
    return Node(path, policy, **more).devices(a=(0,), b=(0,), c=(1,), d=(1,))


@pytest.mark.scenario("S19", "S20")
def test_single_numa_node_puts_devices_and_cpus_on_one_node(tmp_path: Path) -> None:
    node = four(tmp_path, "single-numa-node")
    assert node.choose("p", container(cpu=2, gpu=2)).chosen == {"c": {GPU: ["a", "b"]}}
    assert node.cpus("p") == {1, 2}
    assert node.choose("q", container(cpu=4, gpu=1)).chosen == {"c": {GPU: ["c"]}}
    assert node.cpus("q") == {4, 5, 6, 7}
    with pytest.raises(TopologyAffinity, match=r"^Resources cannot be allocated with Topology locality$"):
        node.choose("r", container(cpu=1, gpu=1))
    assert node.cpus("r") == set()


def test_three_devices_of_two_nodes(tmp_path: Path) -> None:
    for policy, admitted in (("single-numa-node", False), ("restricted", True), ("best-effort", True), ("none", True)):
        node = four(tmp_path / policy, policy)
        if admitted:
            assert len(node.choose("p", container(gpu=3)).chosen["c"][GPU]) == 3
        else:
            with pytest.raises(TopologyAffinity):
                node.choose("p", container(gpu=3))


def test_restricted_wants_what_an_empty_machine_could_give(tmp_path: Path) -> None:
    """A full machine does not make two nodes a good place for what one could hold."""
    for policy, admitted in (("restricted", False), ("best-effort", True)):
        node = four(tmp_path / policy, policy)
        node.ledger.reserve("other", [DeviceKey(GPU, "a"), DeviceKey(GPU, "c")])
        if admitted:
            assert node.choose("p", container(gpu=2)).chosen["c"][GPU] == ["b", "d"]
        else:
            with pytest.raises(TopologyAffinity):
                node.choose("p", container(gpu=2))


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pod_that_is_chosen_for_again_after_a_reboot_keeps_what_it_has(tmp_path: Path, scope: str) -> None:
    """Also memory of an init container that a later one took over, and CPUs of a node that has no others left."""
    settings = {"memoryManagerPolicy": "Static", "reservedMemory": {"0": {"memory": "1Gi"}}}
    node = four(tmp_path, "restricted", scope=scope, **settings)
    both = (container("i", cpu=4, kind="init", memory=GIB), container("c", cpu=4, memory=GIB))
    node.choose("p", *both)
    before = node.placer.placed("p", "i"), node.placer.placed("p", "c")
    node.choose("p", *both)
    assert (node.placer.placed("p", "i"), node.placer.placed("p", "c")) == before


def test_by_pod_all_containers_end_on_one_node_by_container_they_may_not(tmp_path: Path) -> None:
    both = (container("x", gpu=1, cpu=2), container("y", gpu=1, cpu=2))
    together = four(tmp_path / "pod", "single-numa-node", scope="pod")
    assert set(together.choose("p", *both).chosen["y"][GPU]) == {"d"}, "node 0 has three CPUs, the pod wants four"
    assert together.cpus("p", "x") | together.cpus("p", "y") == {4, 5, 6, 7}
    apart = four(tmp_path / "container", "single-numa-node")
    apart.choose("p", *both)
    assert apart.cpus("p", "x") == {1, 2}
    assert apart.cpus("p", "y") == {4, 5}


def test_the_plugin_is_asked_about_aligned_devices_only(tmp_path: Path) -> None:
    node = Node(tmp_path, "single-numa-node").devices(a=(0,), b=(0,), c=(0,), d=(1,))
    node.plugins.wish = ["c", "d", "nonsense"]
    assert node.choose("p", container(gpu=2, cpu=1)).chosen["c"][GPU] == ["a", "c"]
    assert node.plugins.asked == [(["a", "b", "c"], [], 2)]


def test_just_enough_aligned_devices_need_no_opinion(tmp_path: Path) -> None:
    node = four(tmp_path, "best-effort")
    node.choose("p", container(gpu=2, cpu=1))
    assert node.plugins.asked == []


def test_a_device_taken_while_the_plugin_answers_is_chosen_again(tmp_path: Path) -> None:
    node = Node(tmp_path, "single-numa-node").devices(a=(0,), b=(0,), c=(1,), d=(1,))
    node.plugins.meanwhile = lambda: node.ledger.reserve("other", [DeviceKey(GPU, "a"), DeviceKey(GPU, "b")])
    assert node.choose("p", container(gpu=1, cpu=1)).chosen["c"][GPU] == ["c"]
    assert node.cpus("p") == {4}, "the CPU went along, and the first one is free again"
    assert 1 in node.cpu_pool.free


def test_init_containers_hand_on_what_they_had(tmp_path: Path) -> None:
    node = four(tmp_path, "single-numa-node")
    node.choose("p", container("i", cpu=2, kind="init"), container("s", cpu=1, kind="sidecar"), container(cpu=1))
    assert node.cpus("p", "i") == {1, 2}
    assert node.cpus("p", "s") | node.cpus("p") == {1, 2}
    assert len(node.cpu_pool.exclusive) == 2


def test_refusals_of_cpus_give_everything_back(tmp_path: Path) -> None:
    node = four(tmp_path, "none")
    text = "Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, which is"
    with pytest.raises(AdmissionRejected, match=text):
        node.choose("p", container("x", gpu=1), container("y", cpu=8))
    node.chooser.cancel("p")
    assert node.ledger.owners == {}
    assert node.cpu_pool.exclusive == frozenset()


def test_smt_alignment(tmp_path: Path) -> None:
    machine = Described(cores_per_node=4, threads=2)
    node = Node(tmp_path, "none", machine=machine, cpuManagerPolicyOptions={"full-pcpus-only": "true"})
    with pytest.raises(AdmissionRejected) as refused:
        node.choose("p", container(cpu=3))
    assert str(refused.value) == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    assert refused.value.details == {"reason": "SMTAlignmentError"}
    node.choose("q", container(cpu=2))
    node.metrics.cpus(node.cpu_pool)
    page, aligned = generate_latest(node.registry).decode(), "kubelet_container_aligned_compute_resources"
    for sample in (
        f'{aligned}_count{{boundary="physical_cpu",scope="container"}} 1.0',
        f'{aligned}_count{{boundary="uncore_cache",scope="container"}} 1.0',
        f'{aligned}_failure_count{{boundary="physical_cpu",scope="container"}} 1.0',
        "kubelet_cpu_manager_shared_pool_size_millicores 5000.0",  # 8 CPUs without the reserved one and two
        'kubelet_cpu_manager_allocation_per_numa{numa_node="0"} 2.0',
    ):
        assert sample in page


def test_memory_follows_the_hint(tmp_path: Path) -> None:
    reserved = {"0": {"memory": "1Gi"}}
    node = Node(tmp_path, "single-numa-node", memoryManagerPolicy="Static", reservedMemory=reserved)
    node.choose("p", container(cpu=1, memory=6 * GIB))
    assert node.placer.placed("p", "c").memory[0].numa == (0,)
    node.choose("q", container(cpu=1, memory=6 * GIB))
    assert node.placer.placed("q", "c").memory[0].numa == (1,)
    assert node.cpus("q") == {4}
    with pytest.raises(TopologyAffinity):
        node.choose("r", container(cpu=1, memory=6 * GIB))


async def test_pods_that_are_not_guaranteed_and_parts_of_cpus_share(tmp_path: Path) -> None:
    node = Node(tmp_path, "single-numa-node")
    pod = AdmitPod("p", "ns", "p", (container(cpu=2),))
    await node.chooser.choose(pod)
    await node.chooser.choose(AdmitPod("q", "ns", "q", (ContainerRequest("c", cpu=1500),), guaranteed=True))
    assert node.cpu_pool.exclusive == frozenset()


def test_a_running_pod_nobody_remembers_keeps_what_it_says_it_has(tmp_path: Path) -> None:
    node = four(tmp_path, "single-numa-node")
    node.choose("other", container(cpu=1))
    held = {GPU: ("d",), "cpu": ("5", "6"), "numa": ("1",)}
    told = ContainerRequest("c", resources={GPU: 1}, cpu=2000, held=held)
    assert node.chooser.reserve_running(AdmitPod("p", "ns", "p", (told,), guaranteed=True)).chosen == {
        "c": {GPU: ["d"]}
    }
    assert node.cpus("p") == {5, 6}
    for claimed in (("1", "2"), ("0", "3"), ("x",), ("99999999999999999999", "5")):
        liar = ContainerRequest("c", cpu=2000, held={"cpu": claimed})
        node.chooser.reserve_running(AdmitPod("liar", "ns", "liar", (liar,), guaranteed=True))
        assert len(node.cpus("liar")) == 2, "others' and reserved CPUs are not believed, it gets free ones"
        assert not node.cpus("liar") & {0, 1, 5, 6}
        node.chooser.cancel("liar")


def test_what_is_counted(tmp_path: Path) -> None:
    node = four(tmp_path, "single-numa-node")
    node.choose("p", container(cpu=2))
    node.inventory.report(NIC, node.inventory.register(NIC), PluginOptions(), [PluginDevice("n", healthy=False)])
    with pytest.raises(AdmissionRejected, match="no healthy devices present"):  # its hint is admitted
        node.choose("o", ContainerRequest("c", resources={NIC: 1}, cpu=1000))
    with pytest.raises(TopologyAffinity):
        node.choose("q", container(cpu=7))
    page = generate_latest(node.registry).decode()
    assert "kubelet_cpu_manager_pinning_requests_total 2.0" in page
    labels = '{boundary="numa_node",scope="container"}'
    assert f"kubelet_container_aligned_compute_resources_count{labels} 1.0" in page
    assert f"kubelet_container_aligned_compute_resources_failure_count{labels} 1.0" in page


def test_a_plan_of_nothing_asks_nobody(tmp_path: Path) -> None:
    placer = make_placer(Alignment(), read_hardware(write_machine(tmp_path, TWO)))
    pod = AdmitPod("p", "ns", "p", (container(cpu=2),), guaranteed=True)
    assert placer.container_hints(pod, pod.containers[0], InitResources()) == [None, None]
