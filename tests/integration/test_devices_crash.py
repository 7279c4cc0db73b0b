"""kill -9 of the device manager and the front door: nothing given twice, nothing lost, no client sees a seam."""

import asyncio

import grpc
import pytest

from protocols.bus import BusError
from protocols.wire.pod_resources import RESUME, REVISION, SEQUENCE
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until
from tests.support.pod_resources_client import Agent, PodEvent, fold, ids
from tests.support.waiting import until_async

DEVICES = 6


async def test_allocations_survive_and_the_plugin_comes_back() -> None:
    async with running_node(actors=("devices",)) as node:
        node.plugin("--resource", RESOURCE, "--devices", "4", "--numa", "2")
        await node.settled(4, 4)
        granted = await node.admit("p1", main={RESOURCE: 2})
        assert granted.grants["main"].envs == {"EXAMPLE_COM_GPU": "gpu-0,gpu-1"}
        await node.restart("devices")
        await node.settled(4, 4)
        await node.holds({"p1": ["gpu-0", "gpu-1"]})
        assert await node.admit("p1", main={RESOURCE: 2}) == granted
        await node.admit("p2", main={RESOURCE: 2})
        await node.holds({"p1": ["gpu-0", "gpu-1"], "p2": ["gpu-2", "gpu-3"]})


async def test_a_pod_that_is_sooner_than_its_plugin_waits_for_it() -> None:
    """The manager was killed, not the plugin: nobody is refused for that."""

    async with running_node(actors=("devices",)) as node:
        plugin = await node.stub().with_devices("a").start()
        await node.settled(1, 1)
        await node.restart("devices")
        waiting = asyncio.create_task(node.admit("p1", main={RESOURCE: 1}))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        await plugin.stop()
        await plugin.start()
        await waiting
        await node.holds({"p1": ["a"]})


@pytest.mark.scenario("S25")
async def test_a_plugin_that_is_killed_takes_no_allocation_along() -> None:
    async with running_node(actors=("devices",)) as node:
        flags = ("--resource", RESOURCE, "--devices", "2")
        plugin = node.plugin(*flags)
        await node.settled(2, 2)
        await node.admit("p1", main={RESOURCE: 1})
        node.kill(f"plugin-{plugin.pid}")
        await node.settled(0, 2)
        node.plugin(*flags)
        await node.settled(2, 2)
        await node.admit("p2", main={RESOURCE: 1})
        await node.holds({"p1": ["gpu-0"], "p2": ["gpu-1"]})
        left = list(node.layout.device_plugins.glob("example.com-gpu-*.sock"))
        assert len(left) == 1, "the second one removes what kill -9 leaves of the first"


async def test_kills_during_churn() -> None:
    """The agent resumes where it was, and its fold is never wrong: no gap, no repetition, no device in two pods."""

    async with running_node() as node:
        node.plugin("--resource", RESOURCE, "--devices", str(DEVICES))
        await node.settled(DEVICES, DEVICES)
        follower = Following(node)
        following = asyncio.create_task(follower.run())
        await until("a first look", lambda: follower.revision)
        enough = asyncio.Event()
        work = asyncio.create_task(churn(node, enough))
        for _ in range(2):
            for victim in ("devices", "frontdoor"):
                await asyncio.sleep(0.2)
                await node.restart(victim)
        await node.up()
        enough.set()
        await work
        await until("the last pod", lambda: "last" in follower.uids)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        agent = Agent(node.layout.pod_resources_socket)
        assert follower.view() == fold(await agent.list_all(), [])
        await agent.close()
        assert follower.restarts == 0
        assert node.log("devices").count("corrupt") == 0


async def test_a_watch_stays_open_while_the_device_manager_is_away() -> None:
    async with running_node() as node:
        agent = Agent(node.layout.pod_resources_socket)
        watch = await agent.watch()
        await node.admit("p1", main={})
        assert (await watch.next()).uid == "p1"
        node.kill("devices")
        assert [pod.name for pod in await agent.list_all()] == ["p1"]
        node.start("devices")
        await node.release("p1")
        event = await watch.next()
        assert (event.action, event.uid) == (PodEvent.DELETED, "p1")
        await agent.close()


async def test_a_corrupt_checkpoint_is_kept_aside_and_reported() -> None:
    async with running_node() as node:
        agent = Agent(node.layout.pod_resources_socket)
        watch = await agent.watch()
        await node.admit("p1", main={})
        assert (await watch.next()).uid == "p1"
        path = node.layout.devices / "checkpoint.json"
        node.kill("devices")
        damaged = path.read_bytes().replace(b'"p1"', b'"p2"')
        path.write_bytes(damaged)
        node.start("devices")
        event = await watch.next()
        assert (event.action, event.uid) == (PodEvent.DELETED, "p1")
        assert path.with_name("checkpoint.json.corrupt").read_bytes() == damaged
        assert "is corrupt: its checksum does not match" in node.log("devices")
        await node.admit("p3", main={})
        assert (await watch.next()).uid == "p3"
        await agent.close()


class Following:
    """An agent that lists once and then only resumes, whatever breaks."""

    def __init__(self, node: DeviceNode) -> None:
        self._node = node
        self._start: list[object] = []
        self._events: list[PodEvent] = []
        self._holders: dict[str, str] = {}
        self.uids: set[str] = set()
        self.revision = ""
        self.restarts = 0

    async def run(self) -> None:
        while True:
            agent = Agent(self._node.layout.pod_resources_socket)
            try:
                if not self.revision:
                    self._start, self.revision = await agent.list_at()
                await self._follow(await agent.watch((RESUME, self.revision), (SEQUENCE, "1")))
            except grpc.aio.AioRpcError as error:
                self.restarts += error.code() is grpc.StatusCode.OUT_OF_RANGE
            except EOFError:
                pass
            finally:
                await agent.close()
            await asyncio.sleep(0.02)

    async def _follow(self, watch: object) -> None:
        while True:
            event = await watch.next()  # type: ignore[attr-defined]  # a PodWatch
            lineage, _, count = self.revision.partition("-")
            assert event.sequence == int(count) + 1, "a gap or a repetition"
            self.revision = f"{lineage}-{event.sequence}"
            self._events.append(event)
            self.uids.add(event.uid)
            self._account(event)

    def _account(self, event: PodEvent) -> None:
        self._holders = {id: uid for id, uid in self._holders.items() if uid != event.uid}
        if event.action != PodEvent.DELETED:
            got = [id for item in event.pod_resources[0].containers for id in ids(item.devices)]
            assert not set(got) & set(self._holders), "a device in two pods"
            self._holders.update(dict.fromkeys(got, event.uid))

    def view(self) -> dict[tuple[str, str], bytes]:
        return fold(self._start, self._events)  # type: ignore[arg-type]  # what list_at gave


async def churn(node: DeviceNode, enough: asyncio.Event) -> None:
    """Pods of two devices, three at a time; one that is refused while the plugin is away is asked for again."""
    number = 0
    while not enough.is_set():
        number += 1
        await insist(node, f"pod-{number}")
        if number > 2:
            await node.release(f"pod-{number - 2}")
    await insist(node, "last")


async def insist(node: DeviceNode, uid: str) -> None:
    await until_async(f"devices of {uid}", lambda: node.admit(uid, main={RESOURCE: 2}), errors=(BusError,))


async def test_registration_revision_is_stable_over_a_crash() -> None:
    async with running_node() as node:
        await node.admit("p1", main={})
        agent = Agent(node.layout.pod_resources_socket)
        await until("listed", lambda: has_pods(agent))
        first = await agent.watch()
        await node.restart("devices")
        await node.restart("frontdoor")
        await node.up()
        await agent.close()
        agent = Agent(node.layout.pod_resources_socket)
        second = await agent.watch((RESUME, first.headers[REVISION]))
        assert second.headers[REVISION] == first.headers[REVISION]
        assert await second.quiet()
        await agent.close()


async def has_pods(agent: Agent) -> bool:
    return bool(await agent.list_all())
