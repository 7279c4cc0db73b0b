"""The client's session against the front door's feed, with breaks wherever they may come: it tells what there is."""

from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.frontdoor.feeds.broadcast import EncodedEvent, Journal, Watchers
from actors.frontdoor.feeds.encoding import bookmark, sequence
from actors.frontdoor.feeds.pod_feed import PodFeed
from actors.frontdoor.pod_resources_api import FEATURE_NAMES, parse_watch_request
from actors.frontdoor.serving.errors import PositionLost
from actors.frontdoor.serving.quota import WatchQuota
from protocols.bus import Event, Op
from protocols.messages.devices import MARK_SHIFT, AllocatedDevice, ContainerAllocation, PodAllocation
from protocols.podresources import Action, PodEvent, WatchOptions, WatchRefused, WatchUnsupported
from protocols.podresources.session import RETRY_MOST, PodWatchSession
from protocols.podresources.watch_state import AllocatableState, PodState
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.pod_resources import FEATURES, REVISION

BASE = 5 << MARK_SHIFT
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
Message = v1.ListAndWatchPodResourcesResponse


def pod(uid: str, name: str, *ids: str) -> PodAllocation:
    devices = tuple(AllocatedDevice("example.com/gpu", id) for id in ids)
    return PodAllocation(uid, "default", name, (ContainerAllocation("main", devices=devices),))


class Server:
    """The front door's state and one stream of it."""

    def __init__(self, ring: int) -> None:
        self.feed = PodFeed(Journal(ring), Watchers(1000, WatchQuota(9)))
        self.feed.on_snapshot([], BASE)
        self.mark = BASE
        self._queue: list[EncodedEvent] = []

    def open(self, session: PodWatchSession[PodEvent], ended: bool = False) -> None:
        wishes = parse_watch_request(session.metadata())
        journal = self.feed.journal
        if wishes.resume is not None:
            self._queue = journal.since(wishes.resume)
        else:
            assert wishes.snapshot
            self._queue = [*self.feed.snapshot(), EncodedEvent(journal.position, bookmark())]
        assert not session.joined({REVISION: journal.revision(), FEATURES: FEATURE_NAMES}, ended=ended)

    def change(self, uid: str, name: str, ids: tuple[str, ...] | None) -> None:
        self.mark += 1
        before = self.feed.journal.position
        if ids is None:
            self.feed.on_event(Event(Op.DELETE, uid, None, mark=self.mark))
        else:
            self.feed.on_event(Event(Op.UPSERT, uid, pod(uid, name, *ids), mark=self.mark))
        self._queue += self.feed.journal.since(before)

    def messages(self) -> list[Message]:
        """What is on its way to the client."""
        base, queue = self.feed.journal.base, self._queue
        self._queue = []
        return [
            Message.FromString(entry.message + (sequence(entry.position - base) if entry.position else b""))
            for entry in queue
        ]

    def state(self) -> dict[str, PodAllocation]:
        return {item.uid: item for item in self.feed.listed()}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["change", "change", "change", "read", "break", "forget"]),
        st.sampled_from([("u1", "a"), ("u2", "a"), ("u3", "b"), ("u4", "c")]),
        st.none() | st.sampled_from([(), ("x",), ("x", "y")]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([1, 3, 1000]))
def test_events_add_up_to_the_state_after_any_failure(steps: list[Any], ring: int) -> None:
    server = Server(ring)
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    view: dict[str, PodAllocation] = {}
    server.open(session)

    def read(most: int) -> None:
        for message in server.messages()[:most]:
            for event in session.message(message):
                take(view, event)

    def connect() -> None:
        try:
            server.open(session)
        except PositionLost:
            session.ended(grpc.StatusCode.OUT_OF_RANGE, "")
            server.open(session)

    for what, (uid, name), ids, most in steps:
        if what == "change":
            server.change(uid, name, ids)
        elif what == "read":
            read(1000)
        elif what == "forget":
            server.mark = server.feed.journal.base + (1 << MARK_SHIFT)
            server.feed.on_snapshot(list(server.feed.pods.items()), server.mark)
            session.ended(UNAVAILABLE, "")
            connect()
        else:
            read(most)
            session.ended(UNAVAILABLE, "")
            connect()
    read(1000)
    session.ended(UNAVAILABLE, "")
    connect()
    read(1000)
    assert view == server.state()


def test_a_snapshot_of_a_stream_that_has_ended_deletes_nobody() -> None:
    server = Server(9)
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    server.change("u1", "a", ("x",))
    server.change("u2", "b", ("y",))
    server.open(session, ended=True)
    events = [event for message in server.messages() for event in session.message(message)]
    assert [(event.action, event.pod.name) for event in events] == [(Action.ADDED, "a"), (Action.ADDED, "b")]
    session.ended(UNAVAILABLE, "")
    server.open(session)
    assert server.messages() == [], "it resumes"


def test_a_bookmark_outside_of_a_snapshot_deletes_nobody() -> None:
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    (added,) = session.message(message("ADDED", "u1", "x"))
    assert added.action is Action.ADDED
    assert session.message(Message.FromString(bookmark())) == []


def test_a_call_that_failed_is_not_listed() -> None:
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    assert not session.joined({}, ended=True)


def take(view: dict[str, PodAllocation], event: PodEvent) -> None:
    """No change is told twice; two pods may have one name."""
    if event.action is Action.DELETED:
        assert view.pop(event.pod.uid).name == event.pod.name
    else:
        assert (event.pod.uid in view) == (event.action is Action.UPDATED)
        assert view.get(event.pod.uid) != event.pod
        view[event.pod.uid] = event.pod


def message(action: str, uid: str, *ids: str) -> Message:
    devices = [v1.ContainerDevices(resource_name="example.com/gpu", device_ids=ids)]
    containers = [v1.ContainerResources(name="main", devices=devices)] if ids else []
    shown = v1.PodResources(name="web-0", namespace="default", containers=containers)
    return Message(action=action, uid=uid, pod_resources=[shown])


def test_successor_added_before_the_old_pod_is_deleted_gives_both_events() -> None:
    state = PodState()
    shown = [message("ADDED", "old", "a"), message("ADDED", "new", "b"), message("DELETED", "old")]
    events = [event for each in shown for event in state.apply(each)]
    assert [(event.action, event.pod.uid) for event in events] == [
        (Action.ADDED, "old"),
        (Action.ADDED, "new"),
        (Action.DELETED, "old"),
    ]


def test_list_of_two_pods_of_one_name_keeps_the_uids_by_what_they_hold() -> None:
    state = PodState()
    pods = {uid: message("ADDED", uid, held) for uid, held in (("old", "a"), ("new", "b"))}
    for each in pods.values():
        state.apply(each)
    both = [pods[uid].pod_resources[0] for uid in ("new", "old")]
    assert state.whole(v1.ListPodResourcesResponse(pod_resources=both)) == []
    (gone,) = state.whole(v1.ListPodResourcesResponse(pod_resources=both[:1]))
    assert (gone.action, gone.pod.uid) == (Action.DELETED, "old")


def test_a_server_of_the_plain_document_is_listed_first() -> None:
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    assert session.joined({})
    listed = v1.ListPodResourcesResponse(pod_resources=[v1.PodResources(name="a", namespace="default")])
    assert [(event.action, event.pod.uid) for event in session.listed(listed)] == [(Action.ADDED, "")]
    gone = v1.PodResources(name="gone", namespace="default")
    late = Message(action="DELETED", uid="u9", pod_resources=[gone])
    assert session.message(late) == [], "a pod that was never told of"
    deleted = Message(action="DELETED", uid="u1", pod_resources=[v1.PodResources(name="a", namespace="default")])
    assert [event.action for event in session.message(deleted)] == [Action.DELETED]
    session.ended(UNAVAILABLE, "")
    assert dict(session.metadata()).get("nodeplane-resume") is None
    assert session.joined({})
    assert [event.action for event in session.listed(listed)] == [Action.ADDED]


def test_pods_live_on_when_a_server_without_snapshots_is_replaced_by_one_with_them_and_back() -> None:
    server = Server(9)
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    shown = v1.PodResources(name="a", namespace="default", containers=[v1.ContainerResources(name="main")])
    listed = v1.ListPodResourcesResponse(pod_resources=[shown, v1.PodResources(name="gone", namespace="default")])
    assert session.joined({})
    assert [event.action for event in session.listed(listed)] == [Action.ADDED, Action.ADDED]
    session.ended(UNAVAILABLE, "")
    server.change("u1", "a", ())
    server.open(session)
    events = [event for message in server.messages() for event in session.message(message)]
    assert [(event.action, event.pod.name, event.pod.uid) for event in events] == [
        (Action.DELETED, "gone", ""),
        (Action.UPDATED, "a", "u1"),
    ]
    session.ended(UNAVAILABLE, "")
    assert session.joined({})
    assert session.listed(v1.ListPodResourcesResponse(pod_resources=[shown])) == []


def test_a_position_outlives_a_list_that_failed() -> None:
    server = Server(9)
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    server.open(session)
    for message in server.messages():
        session.message(message)
    session.ended(UNAVAILABLE, "")
    resume = session.metadata()
    assert session.joined({})
    session.ended(UNAVAILABLE, "")
    assert session.metadata() == resume


def test_messages_of_a_later_document_are_passed_over() -> None:
    session = PodWatchSession[PodEvent](PodState(), WatchOptions())
    session.joined({})
    later = Message.FromString(b"\x08\x09")
    assert later.action == 9
    assert session.message(later) == []


def test_ends_that_pass_and_ends_that_stay() -> None:
    said: list[str] = []
    session = PodWatchSession[PodEvent](PodState(), WatchOptions(on_break=said.append))
    pauses = [session.ended(UNAVAILABLE, "") for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == RETRY_MOST
    assert len(said) == 1
    assert session.ended(grpc.StatusCode.DEADLINE_EXCEEDED, "") == RETRY_MOST  # of the List beside a stream
    with pytest.raises(WatchUnsupported, match="nodeplane adopt"):
        session.ended(grpc.StatusCode.UNIMPLEMENTED, "no such method")
    with pytest.raises(WatchRefused, match="INVALID_ARGUMENT"):
        session.ended(grpc.StatusCode.INVALID_ARGUMENT, "nonsense")


def test_a_second_snapshot_of_allocatable_is_sent_as_its_difference() -> None:
    view = AllocatableState()

    def whole(*ids: str, cpus: tuple[int, ...] = (), size: int = 1) -> v1.AllocatableResourcesResponse:
        return v1.AllocatableResourcesResponse(
            devices=[v1.ContainerDevices(resource_name="r/x", device_ids=[id]) for id in ids],
            cpu_ids=cpus,
            memory=[v1.ContainerMemory(memory_type="memory", size=size)],
        )

    assert [event.action for event in view.whole(whole("a", "b", cpus=(1, 2)))] == [Action.ADDED]
    assert view.whole(whole("a", "b", cpus=(1, 2))) == []
    gone, came, changed = view.whole(whole("b", "c", cpus=(2, 3), size=2))
    assert (gone.action, [item.id for item in gone.devices], gone.cpus) == (Action.DELETED, ["a"], (1,))
    assert (came.action, [item.id for item in came.devices], came.cpus) == (Action.ADDED, ["c"], (3,))
    assert (changed.action, [block.size for block in changed.memory]) == (Action.UPDATED, [2])
