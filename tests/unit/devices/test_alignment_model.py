"""Random pods come and go on small machines; after every step nobody has what is another's, a rejection is one that
trying everything confirms, and a new life made from the ledger alone has the same picture."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.admission.grants import AllocationBuilder
from actors.devices.machine.machine_manager import make_placer
from actors.devices.machine.placer import Placer
from actors.devices.machine.sysfs import read_hardware
from actors.devices.memory.nodes import NodeMemory
from actors.devices.model.errors import TopologyAffinity
from protocols.lifecycle.devices.ledger import held_by
from protocols.lifecycle.devices.types import PodRecord
from protocols.lifecycle.errors import AdmissionRejected
from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.node.alignment import Alignment
from tests.support.alignment_node import GPU, Node
from tests.support.machines import Described

UNIT = 1 << 20
MACHINES = tuple(
    Described(sockets=sockets, nodes_per_socket=nodes, cores_per_node=cores, threads=threads, memory=8 * UNIT)
    for sockets, nodes, cores, threads in ((1, 1, 4, 1), (2, 1, 2, 2), (2, 1, 4, 1), (1, 3, 2, 1))
)

requests = st.builds(
    lambda name, kind, cpu, gpu, memory: ContainerRequest(
        name, kind, {GPU: gpu} if gpu else {}, cpu=1000 * cpu, memory={"memory": memory * UNIT}
    ),
    st.just(""),
    st.sampled_from(["app", "app", "init", "sidecar"]),
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(0, 6),
)
pods = st.lists(requests, min_size=1, max_size=3)
steps = st.lists(st.tuples(st.sampled_from("abcdef"), pods), max_size=14)
policies = st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])


class World:
    def __init__(self, path: Path, machine: Described, policy: str, scope: str) -> None:
        settings: dict[str, Any] = {
            "memoryManagerPolicy": "Static",
            "reservedMemory": {"0": {"memory": "1Mi"}},
            "cpuManagerPolicyOptions": {},
        }
        self.node = Node(path, policy, scope=scope, machine=machine, **settings)
        self.node.plugins.options = type(self.node.plugins.options)()
        self.node.devices(**{f"d{node}{n}": (node,) for node in range(machine.nodes) for n in range(2)})
        self.alignment = Alignment(cpuManagerPolicy="static", reservedSystemCPUs="0", **settings)
        self.hardware = read_hardware(path)
        self.records = AllocationBuilder(self.node.inventory, self.node.placer)

    def come(self, uid: str, containers: list[ContainerRequest]) -> None:
        named = tuple(
            ContainerRequest(f"c{n}", c.kind, c.resources, cpu=c.cpu, memory=c.memory) for n, c in enumerate(containers)
        )
        pod = AdmitPod(uid, "ns", uid, named, guaranteed=True)
        before = self.picture()
        try:
            plan = asyncio.run(self.node.chooser.choose(pod))
        except AdmissionRejected as refused:
            self.node.chooser.cancel(uid)
            assert self.picture() == before, "a refused pod leaves nothing behind"
            if isinstance(refused, TopologyAffinity) and len(named) == 1:
                self.confirm(named[0])
        else:
            self.node.ledger.admit(PodRecord(self.records.planned_allocation(pod, plan)))
            self.node.chooser.cancel(uid)
            self.one_place(uid)
            self.come_again(pod)

    def come_again(self, pod: AdmitPod) -> None:
        """A pod without devices is chosen for again after a reboot: it keeps what it has, however full the node is."""
        record = self.node.ledger.pods[pod.uid]
        if not held_by(record.allocation):
            plan = asyncio.run(self.node.chooser.choose(pod))
            assert self.records.planned_allocation(pod, plan) == record.allocation

    def go(self, uid: str) -> None:
        self.node.ledger.release(uid)
        self.node.placer.release(uid)

    @staticmethod
    def memory(placer: Placer) -> Mapping[int, NodeMemory]:
        assert placer.memory is not None
        return placer.memory.nodes

    def picture(self) -> tuple[object, ...]:
        return dict(self.node.ledger.owners), self.node.cpu_pool.free, self.memory(self.node.placer)

    def confirm(self, container: ContainerRequest) -> None:
        """Under single-numa-node: really no node has room for all of it."""
        placer = self.node.placer
        if placer.rules.policy != "single-numa-node":
            return
        free = self.node.ledger.free(GPU, self.node.inventory.healthy(GPU))
        for node, memory in self.memory(placer).items():
            gpus = sum(1 for id in free if id[1] == str(node))
            cpus = len(self.node.cpu_pool.free & self.hardware.cpus.in_nodes((node,)))
            room = memory.tables["memory"].free if len(memory.group) == 1 else 0
            fits = (
                gpus >= container.resources.get(GPU, 0),
                cpus >= container.cpu // 1000,
                room >= container.memory["memory"],
            )
            assert not all(fits), f"node {node} has room"

    def one_place(self, uid: str) -> None:
        """Under single-numa-node a container has everything on one node."""
        if self.node.placer.rules.policy != "single-numa-node":
            return
        for item in self.node.ledger.pods[uid].allocation.containers:
            nodes = {self.hardware.cpus.places[cpu].node for cpu in item.cpus}
            nodes |= {node for device in item.devices for node in device.numa}
            nodes |= {node for block in item.memory for node in block.numa}
            assert len(nodes) <= 1

    def check(self) -> None:
        allocations = [record.allocation for record in self.node.ledger.pods.values()]
        owners = [(cpu, pod.uid) for pod in allocations for cpu in {c for item in pod.containers for c in item.cpus}]
        assert len({cpu for cpu, _ in owners}) == len(owners)
        assert not {cpu for cpu, _ in owners} & {0}
        for node in self.memory(self.node.placer).values():
            assert all(0 <= table.free <= table.allocatable for table in node.tables.values())
        again = make_placer(self.alignment, self.hardware)
        for pod in allocations:
            assert again.adopt(pod) == []
        assert again.cpus is not None
        assert again.cpus.free == self.node.cpu_pool.free
        ours, theirs = self.memory(self.node.placer), self.memory(again)
        assert {n: m.assignments for n, m in ours.items()} == {n: m.assignments for n, m in theirs.items()}
        assert sum(m.tables["memory"].free for m in ours.values()) == sum(
            m.tables["memory"].free for m in theirs.values()
        )


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for trees of sysfs."""
    return tmp_path_factory.mktemp("machines")


@given(st.sampled_from(MACHINES), policies, st.sampled_from(["container", "pod"]), steps)
def test_any_history(
    trees: Path, machine: Described, policy: str, scope: str, steps: list[tuple[str, list[ContainerRequest]]]
) -> None:
    world = World(trees / str(MACHINES.index(machine)), machine, policy, scope)
    for uid, containers in steps:
        if uid in world.node.ledger.pods:
            world.go(uid)
        else:
            world.come(uid, containers)
        world.check()
    for uid in list(world.node.ledger.pods):
        world.go(uid)
    assert world.node.ledger.owners == {}
    assert world.node.cpu_pool.free == world.node.cpu_pool.allocatable
