"""CPUs, memory and devices of pods on described machines, over real processes (scenarios S19, S27, S29, S41 of the
device facts), and kill -9 of the device manager at the worst moments."""

import asyncio
import contextlib
import json
import random
from pathlib import Path

import pytest

from protocols.bus import FailedPrecondition, Replica
from protocols.messages import devices as messages
from protocols.messages.devices import AdmitPod, AdmittedPod, ContainerRequest, Machine, Placement
from protocols.node.alignment import Alignment
from protocols.wire import podresources_v1_pb2 as v1
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until
from tests.support.machines import GIB, Described, set_online, write_machine
from tests.support.pod_resources_client import Agent, PodWatch

Change = v1.ListAndWatchAllocatableResourcesResponse
TWO = Described(sockets=2, cores_per_node=4, memory=8 * GIB)


def aligned(path: Path, **more: object) -> dict[str, Alignment]:
    write_machine(path, TWO)
    settings = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "memoryManagerPolicy": "Static",
        "reservedMemory": {"1": {"memory": "1Gi"}},
        "systemReserved": {"memory": "1Gi"},
        "topologyManagerPolicy": "single-numa-node",
        "sysfsRoot": str(path),
    }
    return {"alignment": Alignment(**{**settings, **more})}  # type: ignore[arg-type]  # msgspec checks them


class Watched:
    """What the device manager says of the machine, and what it gave out."""

    def __init__(self, node: DeviceNode) -> None:
        self.machines, self.placements = Replica[Machine](), Replica[Placement]()
        node.bus.follow(owner="devices", stream=messages.MACHINE, sink=self.machines, type=Machine)
        node.bus.follow(owner="devices", stream=messages.PLACEMENT, sink=self.placements, type=Placement)
        self.node = node

    def shared(self) -> str:
        found = self.placements.items.get(messages.NODE)
        return found.shared if found else ""

    def cpus(self) -> dict[str, tuple[int, ...]]:
        return {uid: pod.containers[0].cpus for uid, pod in self.node.allocations.items.items()}

    def state(self) -> dict[str, str]:
        """CPU lists by pod as the state file has them."""
        file = self.node.layout.kubelet / "cpu_manager_state"
        raw = json.loads(file.read_text()) if file.is_file() else {}
        return {uid: held["c"] for uid, held in raw.get("entries", {}).items()}


async def admit(node: DeviceNode, uid: str, cpu: int, gpu: int = 0, gib: int = 1) -> AdmittedPod:
    resources = {RESOURCE: gpu} if gpu else {}
    container = ContainerRequest("c", resources=resources, cpu=cpu * 1000, memory={"memory": gib * GIB})
    return await node.admit_pod(AdmitPod(uid, "default", uid, (container,), guaranteed=True), timeout=40)


async def test_a_pod_lands_on_one_node_and_all_can_see_it(tmp_path: Path) -> None:
    async with running_node(**aligned(tmp_path)) as node:
        seen = Watched(node)
        await node.stub().with_devices("a", "b", "c", "d", numa={"a": 0, "b": 0, "c": 1, "d": 1}).start()
        await node.settled(4, 4)
        agent = Agent(node.layout.pod_resources_socket)
        try:
            await until("CPUs online and not reserved", lambda: shows(agent, [1, 2, 3, 4, 5, 6, 7]))
            memory = (await agent.machine()).memory
            assert [(m.size, [n.ID for n in m.topology.nodes]) for m in memory] == [(8 * GIB, [0]), (7 * GIB, [1])]
            grant = (await admit(node, "p1", cpu=4, gpu=2)).grants["c"]
            assert (grant.cpus, grant.mems) == ("4-7", "1"), "node 0 has three CPUs left"
            with pytest.raises(
                FailedPrecondition, match=r"^Resources cannot be allocated with Topology loc"
            ) as refused:
                await admit(node, "p2", cpu=1, gpu=3)
            assert refused.value.details == {"reason": "TopologyAffinityError"}
            await admit(node, "p3", cpu=1)
            await until("both pods", lambda: lists(agent, 2))
            (first, third) = sorted(await agent.list_all(), key=lambda pod: pod.name)
            (container,) = first.containers
            assert list(container.cpu_ids) == [4, 5, 6, 7]
            assert [(m.memory_type, m.size, [n.ID for n in m.topology.nodes]) for m in container.memory] == [
                ("memory", GIB, [1])
            ]
            assert sorted(d.device_ids[0] for d in container.devices) == ["c", "d"]
            assert list(third.containers[0].cpu_ids) == [1]
            await until("the file", lambda: seen.state() == {"p1": "4-7", "p3": "1"})
            await until("the pool", lambda: seen.shared() == "0,2-3")
            await cpus_go_and_come(node, seen, agent, tmp_path)
        finally:
            await agent.close()


async def cpus_go_and_come(node: DeviceNode, seen: Watched, agent: Agent, root: Path) -> None:
    """An admission looks at the machine; nobody has to wait for the slow poll."""
    watch = await agent.watch_allocatable()
    set_online(root, TWO, set(range(8)) - {3, 7})
    with pytest.raises(FailedPrecondition):
        await admit(node, "late", cpu=3)
    await until("fewer CPUs", lambda: seen.machines.items[messages.NODE].cpus == (1, 2, 4, 5, 6))
    assert seen.cpus()["p1"] == (4, 5, 6, 7), "what a pod has stays its own"

    await until("agents see it", lambda: shows(agent, [1, 2, 4, 5, 6]))
    assert await next_cpus(watch) == (Change.DELETED, [3, 7])
    set_online(root, TWO, range(8))
    await admit(node, "later", cpu=2)
    assert await next_cpus(watch) == (Change.ADDED, [3, 7])
    await until("its CPUs", lambda: seen.cpus().get("later") == (2, 3))


async def shows(agent: Agent, cpus: list[int]) -> bool:
    return list((await agent.machine()).cpu_ids) == cpus


async def lists(agent: Agent, pods: int) -> bool:
    return len(await agent.list_all()) == pods


async def next_cpus(watch: PodWatch) -> tuple[int, list[int]]:
    """The next change of CPUs; what was there before the watch is passed over."""
    while True:
        event = await watch.next()
        if event.cpu_ids and len(event.cpu_ids) < 7:
            return event.action, sorted(event.cpu_ids)


async def test_kill_9_loses_nothing_and_gives_nothing_twice(tmp_path: Path) -> None:
    """Also in the middle of an admission, with CPUs reserved and the plugin thinking."""

    async with running_node(actors=("devices",), **aligned(tmp_path, topologyManagerPolicy="best-effort")) as node:
        seen = Watched(node)
        plugin = await node.stub().with_devices("a", "b", "c", "d", numa={"a": 0, "b": 0, "c": 1, "d": 1}).start()
        await node.settled(4, 4)
        given = {"p1": (await admit(node, "p1", cpu=2, gpu=1)).grants["c"].cpus}
        plugin.hang.clear()
        waiting = asyncio.create_task(admit(node, "p2", cpu=2, gpu=1))
        await until("a plugin that thinks", lambda: len(plugin.called("allocate")) == 2)

        def spoil() -> None:
            (node.layout.kubelet / "cpu_manager_state").write_bytes(b"\0\0garbage")

        await node.restart("devices", meanwhile=spoil)
        assert seen.cpus() == {"p1": (1, 2)}
        assert (node.layout.kubelet / "cpu_manager_state.corrupt").exists()
        await until("a file that is right again", lambda: seen.state() == given)
        plugin.hang.set()
        await plugin.stop()
        await plugin.start()
        given["p2"] = (await waiting).grants["c"].cpus
        assert given == {"p1": "1-2", "p2": "4-5"}
        await storm(node, seen, given)


async def storm(node: DeviceNode, seen: Watched, given: dict[str, str]) -> None:
    """Pods come and go while the manager is killed; who was told that he has CPUs, has them."""
    choice = random.Random(5)

    async def come(uid: str) -> None:
        with contextlib.suppress(FailedPrecondition):
            given[uid] = (await admit(node, uid, cpu=1, gib=0)).grants["c"].cpus

    for turn in range(3):
        tasks = [asyncio.create_task(come(f"t{turn}-{n}")) for n in range(4)]
        await asyncio.sleep(choice.uniform(0, 0.02))
        await node.restart("devices")
        await asyncio.gather(*tasks)
        held = [cpu for cpus in seen.cpus().values() for cpu in cpus]
        assert len(held) == len(set(held))
        await until("what was told", lambda: all(seen.state().get(uid) == cpus for uid, cpus in given.items()))
        for uid in [uid for uid in list(given) if uid.startswith("t")]:
            await node.release(uid)
            del given[uid]
    await until("all given back", lambda: seen.state() == given)


async def test_another_policy_is_refused_while_pods_hold_cpus(tmp_path: Path) -> None:
    async with running_node(actors=("devices",), **aligned(tmp_path)) as node:
        await admit(node, "p1", cpu=1)
        node.kill("devices")
        node.change(alignment=Alignment(sysfsRoot=str(tmp_path)))
        node.start("devices")
        assert await asyncio.to_thread(node.processes["devices"].wait, 60) == 1
        text = 'configured policy "none" differs from state checkpoint policy "static", please drain this node'
        assert text in node.log("devices")
        file = node.layout.kubelet / "cpu_manager_state"
        file.unlink()
        (file / "in the way").mkdir(parents=True)
        node.change(**aligned(tmp_path))
        node.start("devices")
        await until("its pods", lambda: node.allocations.synced and "p1" in node.allocations.items)
        await until("a file that is right again", file.is_file)
        assert file.with_name(f"{file.name}.corrupt").is_dir(), "whatever it was, it is kept aside"
        file.unlink()
        file.mkdir()
        assert (await admit(node, "p2", cpu=1)).grants["c"].cpus == "2", "pods depend on the ledger, not on its copies"
        await until("a complaint", lambda: "cannot write the manager state files" in node.log("devices"))
        file.rmdir()
        with pytest.raises(FailedPrecondition):
            await admit(node, "p3", cpu=7)
        await node.release("p2")
        await until("the file again", lambda: file.is_file() and Watched(node).state() == {"p1": "1"})
