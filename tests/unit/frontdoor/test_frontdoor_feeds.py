"""Feeds, journal and rate limit of the front door: List plus events gives the next List, whatever the bus loses."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from actors.frontdoor.feeds.allocatable_feed import AllocatableFeed
from actors.frontdoor.feeds.broadcast import EncodedEvent, Journal, Watchers, WatchOutput, parse_revision, serve_watch
from actors.frontdoor.feeds.encoding import pod
from actors.frontdoor.feeds.pod_feed import PodFeed
from actors.frontdoor.pod_resources_api import Watch, WatchRequest, parse_watch_request
from actors.frontdoor.serving.endpoint import FairLimiter
from actors.frontdoor.serving.errors import MetadataInvalid, PositionLost, Stopping, TooManyWatchers, WatcherTooSlow
from actors.frontdoor.serving.listener import UNKNOWN_PEER
from actors.frontdoor.serving.metrics import FrontDoorMetrics
from actors.frontdoor.serving.quota import WatchQuota
from protocols.bus import Event, Op
from protocols.errors import NodeplaneError
from protocols.messages.devices import (
    MARK_SHIFT,
    AllocatedDevice,
    ContainerAllocation,
    Device,
    LedgerEvent,
    LedgerHistory,
    PodAllocation,
)
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.pod_resources import REVISION, SEQUENCE

BASE = 5 << MARK_SHIFT
View = dict[tuple[str, str], bytes]


def allocation(uid: str, *ids: str) -> PodAllocation:
    devices = tuple(AllocatedDevice("example.com/gpu", id) for id in ids)
    return PodAllocation(uid, "default", uid, (ContainerAllocation("main", devices=devices),))


def pod_feed(ring: int = 1000, **options: str) -> PodFeed:
    return PodFeed(Journal(ring), Watchers(1000, WatchQuota(64)), **options)  # type: ignore[arg-type] # names are known


def listing(feed: PodFeed) -> View:
    return {(item.namespace, item.name): pod(item).SerializeToString(deterministic=True) for item in feed.listed()}


def fold(view: View, entries: list[EncodedEvent]) -> View:
    view = dict(view)
    for entry in entries:
        event = v1.ListAndWatchPodResourcesResponse.FromString(entry.message)
        [item] = event.pod_resources
        key = (item.namespace, item.name)
        if event.action == v1.ListAndWatchPodResourcesResponse.DELETED:
            del view[key]
        else:
            assert (key in view) == (event.action == v1.ListAndWatchPodResourcesResponse.UPDATED)
            view[key] = item.SerializeToString(deterministic=True)
    return view


class Ledger:
    """A device manager's ledger: two devices, pods that come, change and go."""

    def __init__(self) -> None:
        self.mark = BASE
        self.pods: dict[str, PodAllocation] = {}

    def step(self, uid: str, ids: tuple[str, ...] | None) -> Event[PodAllocation] | None:
        if ids is None and uid not in self.pods:
            return None
        self.mark += 1
        if ids is None:
            del self.pods[uid]
            return Event(Op.DELETE, uid, None, mark=self.mark)
        self.pods[uid] = allocation(uid, *ids)
        return Event(Op.UPSERT, uid, self.pods[uid], mark=self.mark)


STEPS = st.tuples(
    st.sampled_from(["p1", "p2", "p3"]),
    st.none() | st.sampled_from([(), ("a",), ("a", "b")]),
    st.sampled_from(["event", "event", "event", "lost", "resync"]),
)


@pytest.mark.scenario("S34")
@given(st.lists(STEPS, max_size=40))
def test_journal_list_plus_later_events_equals_list(steps: list[tuple[str, tuple[str, ...] | None, str]]) -> None:
    """`lost` events are only seen in the next snapshot; positions never repeat and never go back."""
    ledger, feed = Ledger(), pod_feed()
    feed.on_snapshot([], BASE)
    behind = False
    seen = [(feed.journal.position, listing(feed))]
    for uid, ids, how in steps:
        event = ledger.step(uid, ids)
        behind = behind or how == "lost"
        if how == "resync" or (behind and how != "lost"):
            feed.on_snapshot(list(ledger.pods.items()), ledger.mark)
            behind = False
        elif event is not None and not behind:
            feed.on_event(event)
        seen.append((feed.journal.position, listing(feed)))
    for position, view in seen:
        entries = feed.journal.since(position)
        assert fold(view, entries) == listing(feed)
        positions = [entry.position for entry in entries]
        assert positions == sorted(set(positions))


def test_on_snapshot_sends_deletions_first() -> None:
    feed = pod_feed()
    feed.on_snapshot([("p1", allocation("p1", "a"))], BASE + 1)
    feed.on_snapshot([("p2", allocation("p2", "a"))], BASE + 3)
    events = [v1.ListAndWatchPodResourcesResponse.FromString(item.message) for item in feed.journal.since(BASE + 1)]
    assert [(event.action, event.uid) for event in events] == [(1, "p1"), (0, "p2")]
    assert [entry.position for entry in feed.journal.since(BASE + 1)] == [BASE + 2, BASE + 3]


async def test_on_snapshot_new_lineage_sends_difference_and_drops_positions() -> None:
    feed = pod_feed()
    feed.on_snapshot([("p1", allocation("p1"))], BASE + 1)
    watcher = feed.watchers.open()
    feed.on_snapshot([], 9 << MARK_SHIFT)
    told = v1.ListAndWatchPodResourcesResponse.FromString((await watcher.next()).message)
    assert (told.action, told.uid) == (v1.ListAndWatchPodResourcesResponse.DELETED, "p1")
    with pytest.raises(PositionLost):
        feed.journal.since(BASE + 1)
    assert feed.journal.revision() == "9-0"


class Aborted(Exception):
    """Raised by a call that is aborted, with its code."""


class Call:
    """A call of a watch with sequence numbers, during whose headers something happens."""

    def __init__(self, during_headers: Callable[[], None]) -> None:
        self._during_headers = during_headers
        self.headers: dict[str, str] = {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((SEQUENCE, "1"),)

    def peer(self) -> str:
        return ""

    async def send_initial_metadata(self, headers: tuple[tuple[str, str], ...]) -> None:
        self.headers = dict(headers)
        self._during_headers()

    async def write(self, message: bytes) -> None:
        raise AssertionError(f"{message!r} was written with the lineage of {self.headers}")

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        raise Aborted(code)


async def test_watch_new_lineage_during_its_headers_ends_it() -> None:
    feed = pod_feed()
    feed.on_snapshot([], BASE)
    endpoint = cast("Any", SimpleNamespace(admit=lambda *_, **__: UNKNOWN_PEER, watch_failed=lambda *_: None))
    watch = Watch("list_and_watch", "ListAndWatch", feed, FrontDoorMetrics(CollectorRegistry()), endpoint, True, 1.0)
    call = Call(lambda: feed.on_snapshot([("u", allocation("u"))], 9 << MARK_SHIFT))
    with pytest.raises(Aborted, match="OUT_OF_RANGE"):
        await watch.call(None, cast("Any", call))
    assert call.headers[REVISION] == "5-0"


def test_on_event_change_that_is_not_shown_sends_nothing() -> None:
    feed = pod_feed(init_containers="none")
    feed.on_snapshot([("p1", PodAllocation("p1", "d", "p1", (ContainerAllocation("i", "init"),)))], BASE)
    changed = ContainerAllocation("i", "init", (AllocatedDevice("example.com/gpu", "a"),))
    feed.on_event(Event(Op.UPSERT, "p1", PodAllocation("p1", "d", "p1", (changed,)), mark=BASE + 1))
    assert feed.journal.since(BASE) == []
    assert feed.journal.position == BASE + 1


def test_prepend_history_extends_journal_backwards() -> None:
    feed = pod_feed()
    feed.on_snapshot([("p2", allocation("p2"))], BASE + 3)
    past = (
        LedgerEvent(BASE + 1, allocation("p1"), new=True),
        LedgerEvent(BASE + 2, allocation("p1"), deleted=True),
        LedgerEvent(BASE + 3, allocation("p2"), new=True),
        LedgerEvent(BASE + 4, allocation("p3"), new=True),
    )
    feed.prepend_history(LedgerHistory(floor=BASE, events=past))
    feed.on_event(Event(Op.UPSERT, "p3", allocation("p3"), mark=BASE + 4))
    assert fold({}, feed.journal.since(BASE)) == listing(feed)
    assert [entry.position - BASE for entry in feed.journal.since(BASE)] == [1, 2, 3, 4]


def test_journal_prepend_keeps_size() -> None:
    journal = Journal(3)
    journal.begin(10)
    journal.append(EncodedEvent(11, b""))
    journal.prepend([EncodedEvent(number, b"") for number in range(6, 11)], 5)
    assert (journal.floor, [entry.position for entry in journal.since(8)]) == (8, [9, 10, 11])
    journal.append(EncodedEvent(12, b""))
    assert journal.floor == 9


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 30))
def test_parse_revision_reads_what_revision_writes(lineage: int, count: int) -> None:
    journal = Journal(1)
    journal.begin(lineage << MARK_SHIFT)
    position = (lineage << MARK_SHIFT) + count
    assert parse_revision(journal.revision(position)) == position


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "1--1", "x-1", "1-x", "1", "1-1-1", " 1-1", "0x1-1", "1-" + "9" * 50]
)
def test_parse_revision_invalid_text_raises(text: str) -> None:
    with pytest.raises(MetadataInvalid):
        parse_revision(text)


def test_parse_watch_request_reads_metadata() -> None:
    assert parse_watch_request([("user-agent", "x"), ("nodeplane-snapshot", "1")]) == WatchRequest(snapshot=True)
    assert parse_watch_request([("nodeplane-resume", "5-2"), ("nodeplane-sequence", "1")]) == WatchRequest(
        False, True, BASE + 2
    )
    with pytest.raises(MetadataInvalid, match="exclude"):
        parse_watch_request([("nodeplane-resume", "5-2"), ("nodeplane-snapshot", "1")])


def test_allocatable_events_of_one_mark_share_a_message() -> None:
    feed = AllocatableFeed(Journal(100), Watchers(10, WatchQuota(1)))
    feed.journal.begin(BASE)
    feed.on_snapshot([], 0)
    for id, mark in (("a", 0), ("b", 1)):
        feed.on_event(Event(Op.UPSERT, f"r/x {id}", Device("r/x", id), mark=mark))
    feed.on_event(Event(Op.DELETE, "r/x a", None, mark=0))
    assert [item.id for item in feed.listed()] == ["a", "b"]
    feed.on_event(Event(Op.UPSERT, "r/x b", Device("r/x", "b", (1,)), mark=2))
    told = [v1.ListAndWatchAllocatableResourcesResponse.FromString(item.message) for item in feed.journal.since(BASE)]
    assert [(event.action, [item.device_ids[0] for item in event.devices]) for event in told] == [
        (0, ["a", "b"]),
        (1, ["a"]),
        (2, ["b"]),
    ]
    feed.on_snapshot([("r/x c", Device("r/x", "c"))], 0)
    assert [item.id for item in feed.listed()] == ["c"]


def test_watchers_full_queue_or_stop_ends_watch() -> None:
    watchers = Watchers(2, WatchQuota(2))
    slow, other = watchers.open(), watchers.open()
    with pytest.raises(TooManyWatchers):
        watchers.open()
    for number in range(3):
        watchers.push(EncodedEvent(number, b""))
    assert isinstance(slow.ended, WatcherTooSlow)
    watchers.close(slow)
    watchers.end_all()
    assert isinstance(other.ended, WatcherTooSlow)
    fresh = watchers.open()
    watchers.end_all()
    assert isinstance(fresh.ended, Stopping)


@pytest.mark.parametrize(("error", "counted"), [(WatcherTooSlow("1 event behind"), 1), (Stopping("stopping"), 0)])
async def test_watch_ended_by_a_stop_is_not_counted_as_too_slow(error: NodeplaneError, counted: int) -> None:
    watcher, too_slow = Watchers(1, WatchQuota(2)).open(), Mock()
    watcher.end(error)
    output = WatchOutput(Mock(), (), lambda event: event.message, 1.0, too_slow)
    with pytest.raises(type(error)):
        await serve_watch(watcher, output)
    assert too_slow.call_count == counted


def test_fair_limiter_single_client_has_whole_rate() -> None:
    limiter = FairLimiter(100.0, 10)
    assert [limiter.take("a", 1.0) for _ in range(11)] == [True] * 10 + [False]
    assert [limiter.take("a", 1.02) for _ in range(3)] == [True, True, False]


def test_fair_limiter_rejects_greedy_client_only() -> None:
    limiter, got = FairLimiter(100.0, 10), {"greedy": 0, "modest": 0}
    for millisecond in range(2000):
        now = 1.0 + millisecond / 1000
        got["greedy"] += limiter.take("greedy", now)
        if millisecond % 40 == 0:
            assert limiter.take("modest", now), f"refused after {millisecond} ms"
            got["modest"] += 1
    assert got["modest"] == 50
    assert got["greedy"] + got["modest"] <= 220


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 0.05)), max_size=300))
def test_fair_limiter_any_clients_stay_within_rate_and_two_bursts(calls: list[tuple[str, float]]) -> None:
    limiter, now, granted = FairLimiter(100.0, 10), 5.0, 0
    for client, pause in calls:
        now += pause
        granted += limiter.take(client, now)
        assert granted <= (now - 5.0) * 100.0 + 20 + 1e-6


def test_fair_limiter_of_watches_takes_all_back_at_once_and_bounds_each() -> None:
    """4,096 watches of 64 clients return after a restart; three clients that open and close get 100 a second."""
    returning = FairLimiter(100.0, 64, 4096)
    assert all(returning.take(f"c{number % 64}", 1.0) for number in range(4096))
    greedy = FairLimiter(100.0, 64, 4096)
    granted = sum(greedy.take(f"c{number % 3}", 1.0 + number / 400) for number in range(4000))
    assert granted <= 3 * 64 + 10 * 100


def test_fair_limiter_zero_rate_is_no_limit() -> None:
    assert all(FairLimiter(0.0, 10).take("a", 1.0) for _ in range(1000))
