"""The pod resources API as node agents see it (scenarios S27-S42 of the device facts), over real sockets."""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire.pod_resources import FEATURES, LIST_V1ALPHA1, RESUME, REVISION, SEQUENCE, SNAPSHOT
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until
from tests.support.pod_resources_client import Agent, PodEvent, ids

AllocatableEvent = v1.ListAndWatchAllocatableResourcesResponse


@asynccontextmanager
async def running_agent(**settings: Any) -> AsyncIterator[tuple[DeviceNode, Agent]]:
    async with running_node(**settings) as node:
        agent = Agent(node.layout.pod_resources_socket)
        try:
            yield node, agent
        finally:
            await agent.close()


@pytest.mark.scenario("S27")
async def test_list_get_and_allocatable_of_node_agree() -> None:
    async with running_agent() as (node, agent):
        assert await agent.list_all() == []
        plugin = await node.stub().with_devices("a", "b", "c", numa={"a": 0, "b": 1}).start()
        await node.settled(3, 3)
        kinds = (("init", "init", 1), ("side", "sidecar", 0), ("main", "app", 2), ("bare", "app", 0))
        asked = tuple(ContainerRequest(name, kind, {RESOURCE: count} if count else {}) for name, kind, count in kinds)
        await node.admit_pod(AdmitPod(uid="u2", namespace="default", name="b", containers=asked))
        await node.admit("a")
        pods = await until("both pods", lambda: listed(agent, 2))
        assert [pod.name for pod in pods] == ["a", "b"]
        assert [(item.name, len(item.devices)) for item in pods[1].containers] == [
            ("side", 0),
            ("main", 2),
            ("bare", 0),
        ]
        assert await agent.get("b") == pods[1]
        with pytest.raises(grpc.aio.AioRpcError, match="pod zz in namespace default not found") as unknown:
            await agent.get("zz")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        await until("all of them", lambda: offers(agent, ["a", "b", "c"]))
        plugin.set_health(b="Unhealthy")
        await until("b gone", lambda: offers(agent, ["a", "c"]))
        old = await LIST_V1ALPHA1.unary(agent.channel)(v1alpha1.ListPodResourcesRequest())
        assert [item.name for item in old.pod_resources[1].containers] == ["main", "bare"]


async def test_watch_every_change_is_one_event() -> None:
    async with running_agent() as (node, agent):
        await node.stub().with_devices("a", "b", numa={"a": 0, "b": 1}).start()
        await node.settled(2, 2)
        watch = await agent.watch()
        assert watch.headers[FEATURES] == "snapshot,resume,sequence"
        await node.admit("p1", main={RESOURCE: 2}, idle={})
        added = await watch.next()
        assert (added.action, added.uid, added.sequence) == (PodEvent.ADDED, "p1", 0)
        [pod] = added.pod_resources
        assert [ids(item.devices) for item in pod.containers] == [["a", "b"], []]
        assert [[node.ID for node in item.topology.nodes] for item in pod.containers[0].devices] == [[0], [1]]
        await node.release("p1")
        deleted = await watch.next()
        assert (deleted.action, deleted.uid) == (PodEvent.DELETED, "p1")
        assert deleted.pod_resources == [v1.PodResources(name="p1", namespace="default")]
        lineage, _, number = watch.headers[REVISION].partition("-")
        _, revision = await agent.list_at()
        assert revision == f"{lineage}-{int(number) + 2}"


@pytest.mark.scenario("S37")
async def test_watch_failed_admission_sends_no_event() -> None:
    async with running_agent() as (node, agent):
        plugin = await node.stub().with_devices("a").start()
        await node.settled(1, 1)
        await node.admit("p1", main={RESOURCE: 1})
        await until("listed", lambda: listed(agent, 1))
        watch = await agent.watch()
        with contextlib.suppress(Exception):
            await node.admit("p2", main={RESOURCE: 1})
        plugin.set_health(a="Unhealthy")
        await node.settled(0, 1)
        await node.stub(endpoint="again.sock").with_devices("a").start()
        await node.settled(1, 1)
        assert await watch.quiet()


async def test_watch_existing_pods_send_nothing() -> None:
    async with running_agent() as (node, agent):
        await node.admit("p1", main={})
        await until("listed", lambda: listed(agent, 1))
        watch = await agent.watch()
        await node.release("p1")
        event = await watch.next()
        assert (event.action, event.uid) == (PodEvent.DELETED, "p1")


async def test_watch_device_moves_sends_release_first() -> None:
    rounds = 100

    async with running_agent() as (node, agent):
        await node.stub().with_devices("a", "b").start()
        await node.settled(2, 2)
        watch = await agent.watch()
        holders: dict[str, str] = {}
        await node.admit("pod-0", main={RESOURCE: 2})
        for number in range(1, rounds):
            await node.release(f"pod-{number - 1}")
            await node.admit(f"pod-{number}", main={RESOURCE: 2})
        for event in await watch.take(2 * rounds - 1):
            if event.action == PodEvent.DELETED:
                holders = {id: uid for id, uid in holders.items() if uid != event.uid}
                continue
            got = ids(event.pod_resources[0].containers[0].devices)
            assert not set(got) & set(holders), "a device in two pods"
            holders.update(dict.fromkeys(got, event.uid))
        assert holders == {"a": f"pod-{rounds - 1}", "b": f"pod-{rounds - 1}"}


async def test_watch_snapshot_ends_with_bookmark() -> None:
    async with running_agent() as (node, agent):
        await node.admit("p1", main={})
        await node.admit("p2", main={})
        await until("listed", lambda: listed(agent, 2))
        watch = await agent.watch((SNAPSHOT, "1"), (SEQUENCE, "1"))
        first, second, bookmark = await watch.take(3)
        assert [(item.action, item.uid, item.sequence) for item in (first, second)] == [(0, "p1", 0), (0, "p2", 0)]
        assert (bookmark.action, bookmark.uid, len(bookmark.pod_resources)) == (PodEvent.BOOKMARK, "", 0)
        await node.release("p1")
        lineage = watch.headers[REVISION].partition("-")[0]
        again = await agent.watch((RESUME, f"{lineage}-{bookmark.sequence}"), (SEQUENCE, "1"))
        event = await again.next()
        assert (event.action, event.uid, event.sequence) == (PodEvent.DELETED, "p1", bookmark.sequence + 1)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (((RESUME, "1-1"),), grpc.StatusCode.OUT_OF_RANGE),
        (((RESUME, "nonsense"),), grpc.StatusCode.INVALID_ARGUMENT),
        (((RESUME, "1--1"),), grpc.StatusCode.INVALID_ARGUMENT),
        (((SNAPSHOT, "yes"),), grpc.StatusCode.INVALID_ARGUMENT),
        (((SNAPSHOT, "1"), (RESUME, "1-1")), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_watch_bad_options_are_rejected(metadata: tuple[tuple[str, str], ...], code: grpc.StatusCode) -> None:
    async with running_agent() as (_node, agent):
        for watch in (agent.watch, agent.watch_allocatable):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await watch(*metadata)
            assert refused.value.code() is code


@pytest.mark.scenario("S33")
async def test_watch_gate_off_is_unimplemented() -> None:
    async with running_agent(feature_gates={"KubeletPodResourcesWatch": False}) as (_node, agent):
        for watch in (agent.watch, agent.watch_allocatable):
            with pytest.raises(grpc.aio.AioRpcError, match="is disabled") as refused:
                await watch()
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert await agent.list_all() == []


@pytest.mark.scenario("S29")
async def test_watch_allocatable_events_are_whole() -> None:
    async with running_agent() as (node, agent):
        watch = await agent.watch_allocatable()
        plugin = await node.stub().with_devices("a", "b", numa={"a": 0}).start()
        added = await watch.next()
        assert (added.action, ids(added.devices)) == (AllocatableEvent.ADDED, ["a", "b"])
        plugin.set_health(a="Unhealthy")
        lost = await watch.next()
        assert (lost.action, ids(lost.devices)) == (AllocatableEvent.DELETED, ["a"])
        plugin.set_health(a="Healthy")
        assert (await watch.next()).action == AllocatableEvent.ADDED
        snapshot = await agent.watch_allocatable((SNAPSHOT, "1"))
        everything, bookmark = await snapshot.take(2)
        assert (ids(everything.devices), bookmark.action) == (["a", "b"], AllocatableEvent.BOOKMARK)
        await plugin.stop()
        gone_all = await watch.next()
        assert (gone_all.action, ids(gone_all.devices)) == (AllocatableEvent.DELETED, ["a", "b"])
        assert await agent.allocatable() == []


async def test_limiter_unary_calls_leaves_watches_alone() -> None:
    async with running_agent() as (node, agent):
        watch = await agent.watch()
        answers = await asyncio.gather(*(agent.list_all() for _ in range(400)), return_exceptions=True)
        refused = [error for error in answers if isinstance(error, grpc.aio.AioRpcError)]
        assert 10 <= len(answers) - len(refused) < 400
        assert {error.code() for error in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert {error.details() for error in refused} == {"rejected by rate limit"}
        await node.admit("p1", main={})
        assert (await watch.next()).uid == "p1"


async def test_watches_too_many_are_refused() -> None:
    async with running_agent() as (_node, agent):
        watches = [await agent.watch() for _ in range(64)]
        with pytest.raises(grpc.aio.AioRpcError, match="64 watches are open") as refused:
            await agent.watch_allocatable()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        watches[0].call.cancel()
        await until("a free place", lambda: opened(agent))


async def test_socket_garbage_disturbs_nobody() -> None:
    async with running_agent() as (node, agent):
        socket = node.layout.pod_resources_socket
        assert stat.S_IMODE(os.stat(socket).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(socket.parent).st_mode) == 0o750
        watch = await agent.watch()
        for garbage in (b"\0" * 1000, b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000)):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            with contextlib.suppress(ConnectionError):
                writer.write(garbage)
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 60)
            writer.close()
        await node.admit("p1", main={})
        assert (await watch.next()).uid == "p1"


async def test_watch_server_stops_is_unavailable() -> None:
    async with running_agent() as (node, agent):
        watch = await agent.watch()
        process = node.processes.pop("frontdoor")
        process.terminate()
        with pytest.raises((grpc.aio.AioRpcError, EOFError)):
            await watch.next()
        assert await watch.call.code() is grpc.StatusCode.UNAVAILABLE
        assert await asyncio.to_thread(process.wait, 60) == 0


async def listed(agent: Agent, count: int) -> list[v1.PodResources] | None:
    pods = await agent.list_all()
    return pods if len(pods) == count else None


async def offers(agent: Agent, devices: list[str]) -> bool:
    return await agent.allocatable() == devices


async def opened(agent: Agent) -> bool:
    try:
        await agent.watch_allocatable()
    except grpc.aio.AioRpcError:
        return False
    return True
