"""Encoding of CPUs, memory and claims, and events that fold into the response."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from actors.frontdoor.feeds.allocatable_feed import AllocatableFeed, MachineSink
from actors.frontdoor.feeds.broadcast import Journal, Watchers
from actors.frontdoor.feeds.encoding import Action, field, pod, pod_bytes, pod_event
from actors.frontdoor.feeds.pod_feed import PodFeed
from actors.frontdoor.serving.quota import WatchQuota
from protocols.bus import Event, Op
from protocols.messages.devices import (
    NODE,
    AllocatedDevice,
    AllocatedMemory,
    ClaimDevice,
    ContainerAllocation,
    Device,
    Machine,
    PodAllocation,
    PreparedClaim,
)
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.protobuf import varint

MIB = 1 << 20
AllocatableEvent = v1.ListAndWatchAllocatableResourcesResponse

FULL = ContainerAllocation(
    "main",
    devices=(AllocatedDevice("example.com/gpu", "b", (0, 1)), AllocatedDevice("example.com/gpu", "a")),
    cpus=(5, 2),
    memory=(AllocatedMemory("memory", 64 * MIB, (0, 1)), AllocatedMemory("hugepages-2Mi", 4 * MIB, (0,))),
    claims=(
        PreparedClaim(
            "default",
            "three",
            "uid-1",
            (
                ClaimDevice("gpu.example.com", "n1", "gpu-1", ("example.com/gpu=1",), share_id="s1"),
                ClaimDevice("gpu.example.com", "n1", "gpu-0", ("example.com/gpu=0",)),
                ClaimDevice("gpu.example.com", "n1", "gpu-2"),
            ),
        ),
    ),
)


def test_pod_lists_devices_cpus_and_memory_in_order() -> None:
    [shown] = pod(PodAllocation("u", "default", "p", (FULL,))).containers
    assert list(shown.cpu_ids) == [2, 5]
    assert [(entry.device_ids[0], [node.ID for node in entry.topology.nodes]) for entry in shown.devices] == [
        ("a", []),
        ("b", [0]),
        ("b", [1]),
    ]
    assert [(item.memory_type, item.size, [node.ID for node in item.topology.nodes]) for item in shown.memory] == [
        ("hugepages-2Mi", 4 * MIB, [0]),
        ("memory", 64 * MIB, [0, 1]),
    ]


@pytest.mark.scenario("S31")
def test_pod_claim_has_one_entry_per_device_with_its_cdi_devices() -> None:
    [shown] = pod(PodAllocation("u", "default", "p", (FULL,))).containers
    [claim] = shown.dynamic_resources
    assert (claim.claim_name, claim.claim_namespace) == ("three", "default")
    assert [
        (item.device_name, [cdi.name for cdi in item.cdi_devices], item.HasField("share_id"))
        for item in claim.claim_resources
    ] == [("gpu-0", ["example.com/gpu=0"], False), ("gpu-1", ["example.com/gpu=1"], True), ("gpu-2", [], False)]


def test_pod_container_lists_all_devices_of_its_claims() -> None:
    """As kubelet does; which container may use which is the runtime's business."""

    def having(name: str, *devices: str) -> ContainerAllocation:
        given = tuple(ClaimDevice("d", "p", device) for device in devices)
        return ContainerAllocation(name, claims=(PreparedClaim("default", "c", "u", given),))

    shown = pod(PodAllocation("u", "default", "p", (having("one", "b"), having("two", "a"), ContainerAllocation("no"))))
    assert [
        [item.device_name for claim in container.dynamic_resources for item in claim.claim_resources]
        for container in shown.containers
    ] == [["a", "b"], ["a", "b"], []]


@given(st.integers(0, 1 << 40), st.binary(max_size=300))
def test_field_any_payload_is_protobuf(number: int, payload: bytes) -> None:
    told = v1.ListAndWatchPodResourcesResponse(sequence=number).SerializeToString()
    assert told == b"\xc0\x3e" + varint(number) if number else told == b""
    parsed = descriptor_pb2.UninterpretedOption.FromString(field(7, payload))
    assert parsed.string_value == payload


def test_list_response_is_encoded_once_per_change() -> None:
    feed = PodFeed(Journal(10), Watchers(10, WatchQuota(1)))
    feed.on_snapshot([("u2", PodAllocation("u2", "b", "x", (FULL,))), ("u1", PodAllocation("u1", "a", "z"))], 1)
    first = feed.list_response()
    assert feed.list_response() is first
    assert feed.v1alpha1_fields() is feed.v1alpha1_fields()
    listed = v1.ListPodResourcesResponse.FromString(first)
    assert list(listed.pod_resources) == [pod(item) for item in feed.listed()]
    feed.on_event(Event(Op.DELETE, "u1", None, mark=2))
    assert [item.name for item in v1.ListPodResourcesResponse.FromString(feed.list_response()).pod_resources] == ["x"]
    assert [item.name for item in feed.v1alpha1_fields()] == ["x"]
    got = v1.GetPodResourcesResponse.FromString(feed.get_response("b", "x") or b"")
    assert got.pod_resources == pod(PodAllocation("u2", "b", "x", (FULL,)))
    assert feed.get_response("a", "z") is None


def test_get_of_a_pod_created_again_before_its_predecessor_ended_is_the_new_one() -> None:
    """After a forced deletion both hold devices for as long as the old one's containers take to end."""
    feed = PodFeed(Journal(10), Watchers(10, WatchQuota(1)))
    old = PodAllocation("a-uid", "d", "p", (ContainerAllocation("main", devices=(AllocatedDevice("r/gpu", "g0"),)),))
    new = PodAllocation("b-uid", "d", "p", (ContainerAllocation("main", devices=(AllocatedDevice("r/gpu", "g1"),)),))
    for first, second in ((old, new), (new, old)):
        feed.on_snapshot([], 0)
        feed.on_event(Event(Op.UPSERT, first.uid, first, mark=1))
        feed.on_event(Event(Op.UPSERT, second.uid, second, mark=2))
        feed.on_event(Event(Op.UPSERT, first.uid, first, mark=3))
        got = v1.GetPodResourcesResponse.FromString(feed.get_response("d", "p") or b"")
        assert got.pod_resources == pod(second)


@pytest.mark.parametrize(
    ("where", "watched", "listed"),
    [
        ("watch", ["fetch", "main"], ["main"]),
        ("list", ["fetch", "main"], ["fetch", "main"]),
        ("none", ["main"], ["main"]),
    ],
)
def test_init_container_that_holds_devices_is_shown(where: str, watched: list[str], listed: list[str]) -> None:
    """Else the watch tells devices as free that the ledger does not give away."""
    gpus = tuple(AllocatedDevice("r/gpu", f"g{n}") for n in range(4))
    containers = (
        ContainerAllocation("fetch", "init", gpus),
        ContainerAllocation("bare", "init"),
        ContainerAllocation("main", devices=gpus[:1]),
    )
    feed = PodFeed(Journal(10), Watchers(10, WatchQuota(1)), init_containers=where)
    feed.on_snapshot([], 0)
    feed.on_event(Event(Op.UPSERT, "u", PodAllocation("u", "d", "p", containers), mark=1))
    messages = [feed.journal.since(0)[0].message, *(event.message for event in feed.snapshot())]
    for message in messages:
        [seen] = v1.ListAndWatchPodResourcesResponse.FromString(message).pod_resources
        assert [item.name for item in seen.containers] == watched
        held = {id for item in seen.containers for entry in item.devices for id in entry.device_ids}
        assert len(held) == (1 if where == "none" else 4)
    [pod_listed] = v1.ListPodResourcesResponse.FromString(feed.list_response()).pod_resources
    assert [item.name for item in pod_listed.containers] == listed
    got = v1.GetPodResourcesResponse.FromString(feed.get_response("d", "p") or b"").pod_resources
    assert got == pod_listed


@pytest.mark.scenario("S38")
def test_claim_prepared_later_is_an_update() -> None:
    feed = PodFeed(Journal(10), Watchers(10, WatchQuota(1)))
    feed.on_snapshot([], 0)
    bare = ContainerAllocation("main")
    claimed = ContainerAllocation("main", claims=FULL.claims)
    for mark, container in ((1, bare), (2, claimed), (3, claimed), (4, bare)):
        feed.on_event(Event(Op.UPSERT, "u", PodAllocation("u", "d", "p", (container,)), mark=mark))
    told = [v1.ListAndWatchPodResourcesResponse.FromString(item.message) for item in feed.journal.since(0)]
    claims = [len(event.pod_resources[0].containers[0].dynamic_resources) for event in told]
    assert [(event.action, count) for event, count in zip(told, claims, strict=True)] == [(0, 0), (2, 1), (2, 0)]


def test_on_snapshot_sends_releases_before_allocations() -> None:
    """Also when the bus lost the events between: no device is in two pods after any one of them."""
    shared = FULL.claims[0]
    holds, empty = ContainerAllocation("main", claims=(shared,)), ContainerAllocation("main")
    feed = PodFeed(Journal(10), Watchers(10, WatchQuota(1)))
    feed.on_snapshot([("a", PodAllocation("a", "d", "a", (empty,))), ("b", PodAllocation("b", "d", "b", (holds,)))], 2)
    feed.on_snapshot([("a", PodAllocation("a", "d", "a", (holds,))), ("b", PodAllocation("b", "d", "b", (empty,)))], 4)
    told = [v1.ListAndWatchPodResourcesResponse.FromString(item.message).uid for item in feed.journal.since(2)]
    assert told == ["b", "a"]


def machine_feed() -> AllocatableFeed:
    feed = AllocatableFeed(Journal(100), Watchers(10, WatchQuota(1)))
    feed.on_snapshot([("r/x a", Device("r/x", "a", (0,)))], 0)
    return feed


@pytest.mark.scenario("S41")
def test_set_machine_sends_cpu_and_memory_events() -> None:
    feed = machine_feed()
    sink = MachineSink(feed)
    node0 = AllocatedMemory("memory", 100 * MIB, (0,))
    sink.on_snapshot([(NODE, Machine((1, 2, 3), (node0, AllocatedMemory("memory", MIB, (1,)))))], 0)
    sink.on_event(Event(Op.UPSERT, NODE, Machine((1, 2, 4), (AllocatedMemory("memory", 90 * MIB, (0,)),)), mark=1))
    sink.on_event(Event(Op.UPSERT, NODE, feed.machine, mark=2))
    told = [AllocatableEvent.FromString(entry.message) for entry in feed.journal.since(0)]
    assert [
        (event.action, list(event.cpu_ids), [(item.size, item.topology.nodes[0].ID) for item in event.memory])
        for event in told
    ] == [
        (AllocatableEvent.ADDED, [1, 2, 3], [(100 * MIB, 0), (MIB, 1)]),
        (AllocatableEvent.DELETED, [3], [(MIB, 1)]),
        (AllocatableEvent.ADDED, [4], []),
        (AllocatableEvent.UPDATED, [], [(90 * MIB, 0)]),
    ]
    reply = v1.AllocatableResourcesResponse.FromString(feed.response())
    assert (list(reply.cpu_ids), [item.size for item in reply.memory]) == ([1, 2, 4], [90 * MIB])
    assert [item.device_ids[0] for item in reply.devices] == ["a"]


BLOCKS = st.lists(
    st.builds(AllocatedMemory, st.sampled_from(["memory", "hugepages-2Mi"]), st.integers(1, 3), st.just((0,))),
    unique_by=lambda block: block.type,
)
MACHINES = st.builds(
    Machine, st.sets(st.integers(0, 7)).map(lambda ids: tuple(sorted(ids))), BLOCKS.map(lambda blocks: tuple(blocks))
)


@given(st.lists(MACHINES, max_size=8))
def test_allocatable_events_fold_into_the_response(machines: list[Machine]) -> None:
    feed = machine_feed()
    cpus: set[int] = set()
    memory: dict[str, int] = {}
    seen = 0
    for machine in machines:
        feed.set_machine(machine)
        for entry in feed.journal.since(seen):
            event = AllocatableEvent.FromString(entry.message)
            sizes = {item.memory_type: item.size for item in event.memory}
            if event.action == AllocatableEvent.DELETED:
                cpus -= set(event.cpu_ids)
                memory = {name: size for name, size in memory.items() if name not in sizes}
            else:
                assert not cpus & set(event.cpu_ids)
                cpus |= set(event.cpu_ids)
                memory |= sizes
        seen = feed.journal.position
        reply = v1.AllocatableResourcesResponse.FromString(feed.response())
        assert cpus == set(reply.cpu_ids)
        assert memory == {item.memory_type: item.size for item in reply.memory}


@pytest.mark.scenario("S42")
@pytest.mark.parametrize("action", [Action.ADDED, Action.DELETED, Action.UPDATED])
def test_a_client_with_a_singular_pod_reads_the_same(action: Action) -> None:
    """As an early draft of the document had it: one element in a repeated field is that field, singular."""
    file = descriptor_pb2.FileDescriptorProto(name="draft.proto", package="draft", syntax="proto3")
    pods = file.message_type.add(name="PodResources")
    pods.field.add(name="name", number=1, type=9, label=1)
    event = file.message_type.add(name="Event")
    event.field.add(name="action", number=1, type=5, label=1)
    event.field.add(name="pod_resources", number=3, type=11, label=1, type_name=".draft.PodResources")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    draft = message_factory.GetMessageClass(pool.FindMessageTypeByName("draft.Event"))
    allocation = PodAllocation("u", "default", "p", (FULL,))
    told: Any = draft.FromString(pod_event(action, allocation, pod_bytes(allocation)))
    assert (told.action, told.pod_resources.name) == (action, "p")
