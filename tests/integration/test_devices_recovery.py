"""What holds when something restarts: the matrix of the device facts (3.9), over real processes and sockets."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from actors.devices.ledger import kubelet_checkpoint as kubelet
from protocols.bus import FailedPrecondition, Replica
from protocols.messages import devices as messages
from protocols.messages.devices import AdmitPod, ContainerRequest, NodeNotice
from protocols.process.files import seal
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until

ONLY = {"actors": ("devices",)}


def checkpoint(node: DeviceNode) -> Path:
    return node.layout.device_plugins / kubelet.NAME


def pod(uid: str, count: int = 1, running: bool = False, held: tuple[str, ...] = ()) -> AdmitPod:
    request = ContainerRequest("main", resources={RESOURCE: count}, held={RESOURCE: held} if held else {})
    return AdmitPod(uid, "default", uid, (request,), running=running)


async def test_kubelets_checkpoint_is_on_disk_before_a_pod_is_admitted_and_after_it_is_released() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b", numa={"a": 1, "b": 1}).start()
        await node.settled(2, 2)
        await node.admit("p1", main={RESOURCE: 1})
        entry = kubelet.CheckpointEntry("p1", "main", RESOURCE, {1: ["a"]}, plugin.answer.SerializeToString())
        assert kubelet.decode(checkpoint(node).read_bytes()) == kubelet.Data((entry,), {RESOURCE: ["a", "b"]})
        await node.release("p1")
        assert kubelet.decode(checkpoint(node).read_bytes()) == kubelet.Data(None, {RESOURCE: ["a", "b"]})
        plugin.set_health(a="Unhealthy")
        wanted = kubelet.Data(None, {RESOURCE: ["b"]})
        await until("the health", lambda: kubelet.decode(checkpoint(node).read_bytes()) == wanted)


@pytest.mark.scenario("S21")
async def test_a_restart_keeps_running_pods_and_rejects_none() -> None:
    """Also trap 16: nothing is freed before podworker says who is left."""

    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        before = await node.admit("p1", main={RESOURCE: 1})
        await plugin.stop()
        await node.restart("devices")
        assert node.figures() == (0, 0)
        await node.holds({"p1": ["a"]})
        assert await node.admit_pod(pod("p1", running=True)) == before
        await plugin.start()
        await node.settled(2, 2)
        await node.admit("p2", main={RESOURCE: 1})
        await node.holds({"p1": ["a"], "p2": ["b"]})
        assert len(plugin.called("allocate")) == 2


@pytest.mark.scenario("S22")
async def test_after_a_reboot_a_pod_needs_healthy_devices() -> None:
    """Trap 10: asked before it starts again, not while it runs; a refused pod holds nothing."""

    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b", "c").start()
        await node.settled(3, 3)
        for uid in ("well", "ill", "runs"):
            await node.admit(uid, main={RESOURCE: 1})
        await plugin.stop()
        await node.restart("devices", lambda: reboot(node))
        await plugin.start()
        plugin.set_health(b="Unhealthy", c="Unhealthy")
        await node.settled(1, 3)
        await node.admit_pod(pod("well"))
        await node.admit_pod(pod("runs", running=True))
        with pytest.raises(FailedPrecondition, match="previously allocated devices are no longer healthy") as refused:
            await node.admit_pod(pod("ill"))
        assert f"cannot allocate unhealthy devices {RESOURCE}, which is unexpected" in str(refused.value)
        plugin.set_health(a="Unhealthy")
        await node.settled(0, 3)
        await node.admit_pod(pod("well"))  # proven once, and not asked again in this boot
        await plugin.stop()
        await node.restart("devices", lambda: reboot(node))
        again = await node.stub().with_devices("a").start()
        again.set_health(a="Unhealthy")
        await node.settled(0, 1)
        with pytest.raises(FailedPrecondition, match="no healthy devices present; cannot allocate unhealthy devices"):
            await node.admit_pod(pod("well"))
        await until("only the one that runs", lambda: node.held() == {"runs": ["c"]})


async def test_devices_restarted_pod_that_does_not_run_needs_healthy_devices() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        for uid in ("ended", "runs"):
            await node.admit(uid, main={RESOURCE: 1})
        await plugin.stop()
        await node.restart("devices")
        await plugin.start()
        plugin.set_health(a="Unhealthy", b="Unhealthy")
        await node.settled(0, 2)
        await node.admit_pod(pod("runs", running=True))
        with pytest.raises(FailedPrecondition, match="no healthy devices present; cannot allocate unhealthy devices"):
            await node.admit_pod(pod("ended"))
        await until("only the one that runs", lambda: node.held() == {"runs": ["b"]})


def reboot(node: DeviceNode) -> None:
    """As the machine's would look to the device manager: its records are of another boot."""
    path = node.layout.devices / "checkpoint.json"
    data = json.dumps(json.loads(path.read_bytes())["data"], separators=(",", ":"))
    data = re.sub(r'"boot":"[^"]*"', '"boot":"the boot before"', data)
    path.write_bytes(seal(data.encode()))


@pytest.mark.scenario("S24")
async def test_pods_deleted_meanwhile_are_freed_when_sources_are_ready() -> None:
    async with running_node(**ONLY) as node:
        await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        await node.admit("left", main={RESOURCE: 1})
        await node.admit("stays", main={RESOURCE: 1})
        await node.restart("devices")
        await node.holds({"left": ["a"], "stays": ["b"]})
        await node.reconcile("stays")
        await until("one freed", lambda: node.held() == {"stays": ["b"]})
        assert len(kubelet.decode(checkpoint(node).read_bytes()).entries or ()) == 1


async def test_a_kubelet_takes_the_node_over_and_gives_it_back() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b", "c").start()
        await node.settled(3, 3)
        await node.admit("ours", main={RESOURCE: 1})
        await node.admit("gone", main={RESOURCE: 1})
        await plugin.stop()
        response = plugin.answer.SerializeToString()
        await node.restart("devices", lambda: takeover(checkpoint(node), response))
        await plugin.start()
        await until("only what has a name", lambda: node.held() == {"ours": ["a"]})
        await node.settled(3, 3)
        with pytest.raises(FailedPrecondition, match="Requested: 2, Available: 1"):
            await node.admit("new", main={RESOURCE: 2})
        grant = (await node.admit_pod(pod("theirs", running=True))).grants["main"]
        assert (grant.envs, grant.held) == ({"STUB": "1"}, {RESOURCE: ("c",)})
        await until("a name", lambda: node.held() == {"ours": ["a"], "theirs": ["c"]})
        await node.admit("broken", main={RESOURCE: 1})
        await until("as new", lambda: node.held() == {"ours": ["a"], "theirs": ["c"], "broken": ["b"]})
        assert "has 1 allocations with a malformed response" in node.log("devices")
        assert "taken from kubelet's checkpoint" in node.log("devices")


def takeover(path: Path, response: bytes) -> None:
    """What a kubelet might have done: one pod is gone, another has come."""
    data = kubelet.decode(path.read_bytes())
    entries = [entry for entry in data.entries or () if entry.pod == "ours"]
    entries.append(kubelet.CheckpointEntry("theirs", "main", RESOURCE, {-1: ["c"]}, response))
    entries.append(kubelet.CheckpointEntry("broken", "main", RESOURCE, {-1: ["b"]}, b"\xff"))
    path.write_bytes(kubelet.encode(kubelet.Data(tuple(entries), data.registered)))


@pytest.mark.scenario("S26")
async def test_lost_checkpoints_are_reported_and_rebuilt_from_running_pods() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        before = await node.admit("p1", main={RESOURCE: 1})

        def lose() -> None:
            checkpoint(node).write_bytes(b"{")
            (node.layout.devices / "checkpoint.json").write_bytes(b"")

        await plugin.stop()
        await node.restart("devices", lose)
        await plugin.start()
        notices = Replica[NodeNotice]()
        node.bus.follow(owner="devices", stream=messages.NOTICES, sink=notices, type=NodeNotice)
        await until("three notices", lambda: len(notices.items) == 3)
        assert {notice.reason for notice in notices.items.values()} == {"DeviceCheckpoint"}
        held = before.grants["main"].held[RESOURCE]
        newcomer = asyncio.create_task(node.admit_pod(pod("p2")))  # must not get what p1 has
        assert await node.admit_pod(pod("p1", running=True, held=held)) == before
        assert not newcomer.done()
        await node.reconcile("p1", "p2")
        await newcomer
        await until("no device twice", lambda: node.held() == {"p1": ["a"], "p2": ["b"]})
