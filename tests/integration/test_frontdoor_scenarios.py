"""Scenarios of the pod resources watch over real sockets, the feed driven by hand; docs/reference/pod-resources.md says
which test has which."""

import asyncio
import random
from collections import Counter

import grpc
import pytest

from actors.frontdoor.feeds.pod_feed import fingerprint, pod_hash
from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from protocols.messages.podworker import NodePod
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire.pod_resources import FINGERPRINT, GET_ALLOCATABLE, LIST, LIST_V1ALPHA1, RESUME, SEQUENCE, SNAPSHOT
from tests.support.device_node import until
from tests.support.front_door import Door, DoorLimits, running_front_door
from tests.support.pod_resources_client import Agent, PodEvent, PodWatch, fold, ids


def give(door: Door, uid: str, *devices: str, name: str = "") -> None:
    held = tuple(AllocatedDevice("example.com/gpu", id) for id in devices)
    value = PodAllocation(uid, "default", name or uid, (ContainerAllocation("main", devices=held),))
    door.pods.on_event(Event(Op.UPSERT, uid, value, mark=door.pods.journal.position + 1))


def take(door: Door, uid: str) -> None:
    door.pods.on_event(Event(Op.DELETE, uid, None, mark=door.pods.journal.position + 1))


@pytest.mark.scenario("S28")
@pytest.mark.parametrize(("active_only", "listed"), [(True, ["p1"]), (False, ["p1", "ended"])])
async def test_list_gate_off_has_ended_pods(active_only: bool, listed: list[str]) -> None:
    async with running_front_door(DoorLimits(active_only=active_only)) as door:
        give(door, "p1", "g0")
        door.pods_without_resources = [NodePod("u9", "default", "ended", ("main",), b"{}")]
        agent = Agent(door.socket)
        assert [pod.name for pod in await agent.list_all()] == listed
        old = await LIST_V1ALPHA1.unary(agent.channel)(v1alpha1.ListPodResourcesRequest())
        assert [(pod.name, len(pod.containers)) for pod in old.pod_resources] == [("ended", 1), ("p1", 1)]
        await agent.close()


async def test_watches_opened_one_after_the_other_are_limited() -> None:
    """Each snapshot is as long as a List, whose limit it must not go around."""
    async with running_front_door(DoorLimits(watch_rate=0.001, watch_burst=3)) as door:
        agent = Agent(door.socket)
        give(door, "p1")
        for opened in (agent.watch, agent.watch, agent.watch_allocatable):
            (await opened((SNAPSHOT, "1"))).call.cancel()
        for opened in (agent.watch, agent.watch_allocatable):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await opened((SNAPSHOT, "1"))
            error = refused.value
            assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        counted = door.registry.get_sample_value(
            "kubelet_pod_resources_endpoint_requests_list_and_watch", {"server_api_version": "v1"}
        )
        assert counted == 2, "a watch the rate refused is no request"
        assert door.registry.get_sample_value("nodeplane_pod_resources_rate_limited_total") == 2
        assert [pod.name for pod in await agent.list_all()] == ["p1"]
        await agent.close()


@pytest.mark.scenario("S30")
async def test_calls_200_at_once_110_succeed() -> None:
    async with running_front_door(DoorLimits(rate=100.0)) as door:
        agent = Agent(door.socket)
        watch = await agent.watch()
        began = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(agent.list_all() for _ in range(200)), return_exceptions=True)
        taken = asyncio.get_running_loop().time() - began
        errors = [error for error in answers if isinstance(error, grpc.aio.AioRpcError)]
        assert {(error.code(), error.details()) for error in errors} == {
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        }
        assert 10 <= 200 - len(errors) <= 10 + 100 * taken + 1
        give(door, "p1")
        assert (await watch.next()).uid == "p1"
        counted = door.registry.get_sample_value(
            "kubelet_pod_resources_endpoint_requests_list", {"server_api_version": "v1"}
        )
        assert counted == 200 - len(errors), "a call the rate refused is no request"
        await agent.close()


async def test_each_call_has_one_sample_under_kubelets_name() -> None:
    """Upstream's node suite wants exactly one of each, so versions that nobody called have none."""
    async with running_front_door() as door:
        give(door, "p1", "g0")
        agent = Agent(door.socket)
        await agent.list_all()
        await agent.get("p1")
        await GET_ALLOCATABLE.unary(agent.channel)(v1.AllocatableResourcesRequest())
        prefix = "kubelet_pod_resources_endpoint_requests"
        samples = [sample for family in door.registry.collect() for sample in family.samples]
        counted = {sample.name: sample.value for sample in samples if sample.name.startswith(prefix)}
        assert len(counted) == len([sample for sample in samples if sample.name.startswith(prefix)])
        assert counted == {
            f"{prefix}_total": 3,
            **{f"{prefix}_{kind}": 1 for kind in ("list", "get", "get_allocatable")},
        }
        await agent.close()


@pytest.mark.scenario("S32")
async def test_list_v1alpha1_client_gets_device_ids() -> None:
    async with running_front_door() as door:
        give(door, "p1", "g1", "g0")
        agent = Agent(door.socket)
        [pod] = (await LIST_V1ALPHA1.unary(agent.channel)(v1alpha1.ListPodResourcesRequest())).pod_resources
        [entry] = pod.containers[0].devices
        assert (entry.resource_name, list(entry.device_ids)) == ("example.com/gpu", ["g0", "g1"])
        await agent.close()


async def test_list_on_request_has_fingerprint() -> None:
    async with running_front_door() as door:
        agent = Agent(door.socket)
        told = []
        for number in range(2):
            give(door, f"p{number}")
            for metadata in ((), ((FINGERPRINT, "1"),)):
                call = LIST.unary(agent.channel)(v1.ListPodResourcesRequest(), metadata=metadata)
                told.append(dict(await call.initial_metadata()).get(FINGERPRINT))
        hashes = [pod_hash("default", name) for name in ("p0", "p1")]
        assert told == [None, fingerprint(hashes[:1]), None, fingerprint(hashes)]
        await agent.close()


@pytest.mark.scenario("S35")
async def test_watchers_devices_change_pods_never_see_one_twice() -> None:
    devices, rounds = [f"g{number}" for number in range(10)], 1000

    async def read(watch: PodWatch, pause: float) -> None:
        owners: dict[str, str] = {}
        for _ in range(10 + 2 * rounds):
            event = await watch.next()
            owners = {id: uid for id, uid in owners.items() if uid != event.uid}
            if event.action != PodEvent.DELETED:
                got = ids(event.pod_resources[0].containers[0].devices)
                assert not set(got) & owners.keys(), "a device in two pods"
                owners |= dict.fromkeys(got, event.uid)
            if pause and event.action == PodEvent.DELETED:
                await asyncio.sleep(pause)
        assert len(owners) == 10

    async with running_front_door(DoorLimits(queue=4096)) as door:
        chance, fast, slow = random.Random(35), Agent(door.socket), Agent(door.socket)
        readers = asyncio.gather(read(await fast.watch(), 0.0), read(await slow.watch(), 0.0005))
        holders = {}
        for id in devices:
            holders[id] = f"first-{id}"
            give(door, holders[id], id)
        for number in range(rounds):
            id = chance.choice(devices)
            take(door, holders[id])
            holders[id] = f"pod-{number}"
            give(door, holders[id], id)
            if number % 20 == 0:
                await asyncio.sleep(0.002)
        await readers
        await fast.close()
        await slow.close()


@pytest.mark.scenario("S36")
async def test_watch_pod_recreated_is_another_pod() -> None:
    async with running_front_door() as door:
        give(door, "old", "g0", name="web-0")
        agent = Agent(door.socket)
        watch = await agent.watch()
        take(door, "old")
        give(door, "new", "g0", name="web-0")
        events = await watch.take(2)
        assert [(event.action, event.uid, event.pod_resources[0].name) for event in events] == [
            (PodEvent.DELETED, "old", "web-0"),
            (PodEvent.ADDED, "new", "web-0"),
        ]
        await agent.close()


@pytest.mark.scenario("S39")
async def test_watch_cancelled_leaves_at_once() -> None:
    async with running_front_door() as door:
        agent = Agent(door.socket)
        watches = [await agent.watch() for _ in range(5)]
        for watch in watches:
            watch.call.cancel()
        await until("all of them gone", lambda: len(door.pods.watchers) == 0)
        await agent.close()


@pytest.mark.scenario("S40")
async def test_watch_resumed_from_list_under_churn_converges() -> None:
    async def churn(door: Door) -> None:
        chance, alive = random.Random(40), set[int]()
        for _ in range(2000):
            number = chance.randrange(500)
            if number in alive:
                take(door, f"p{number}")
                alive.discard(number)
            else:
                give(door, f"p{number}", f"g{number}")
                alive.add(number)
            if chance.random() < 0.05:
                await asyncio.sleep(0.001)

    async with running_front_door(DoorLimits(queue=4096)) as door:
        agent = Agent(door.socket)
        churning = asyncio.ensure_future(churn(door))
        await asyncio.sleep(0.02)
        start, revision = await agent.list_at()
        watch = await agent.watch((RESUME, revision), (SEQUENCE, "1"))
        await churning
        final, last = await agent.list_at()
        lineage, count = last.split("-")
        assert revision.startswith(f"{lineage}-")
        while not watch.seen or watch.seen[-1].sequence < int(count):
            await watch.next()
        assert fold(start, watch.seen) == fold(final, [])
        whole = await agent.watch((SNAPSHOT, "1"), (SEQUENCE, "1"))
        seen = await whole.take(len(final) + 1)
        assert Counter(event.action for event in seen) == {PodEvent.ADDED: len(final), PodEvent.BOOKMARK: 1}
        assert (seen[-1].action, seen[-1].sequence) == (PodEvent.BOOKMARK, int(count))
        with pytest.raises(grpc.aio.AioRpcError) as stale:
            await agent.watch((RESUME, f"{int(lineage, 16) + 1:x}-{count}"))
        assert stale.value.code() is grpc.StatusCode.OUT_OF_RANGE
        await agent.close()
