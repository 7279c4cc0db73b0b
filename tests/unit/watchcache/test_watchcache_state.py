"""From etcd's batches to events: replay fills only history, lists after compaction begin it anew."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.shell.store_follower import StoreTooOld, answers_in_order, reject_lossy_version
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, WatchBatch, WatchEvent
from protocols.messages.objects import FLOOR_KEY, ObjectEvent

OPTIONS = WatchcacheOptions(etcd=EtcdOptions(endpoints=("unix:/none",)), resume_revisions=10)
POD = b"/registry/pods/ns/"


class Etcd:
    """A key space with its whole history."""

    def __init__(self) -> None:
        self.now: dict[bytes, KeyValue] = {}
        self.events: list[WatchEvent] = []
        self.revision = 1

    def put(self, key: bytes, value: bytes) -> None:
        self.revision += 1
        before = self.now.get(key)
        created, version = (before.create_revision, before.version) if before else (self.revision, 0)
        kv = self.now[key] = KeyValue(key, value, created, self.revision, version + 1)
        self.events.append(WatchEvent(False, kv, before))

    def delete(self, key: bytes) -> None:
        before = self.now.pop(key, None)
        if before is not None:
            self.revision += 1
            self.events.append(WatchEvent(True, KeyValue(key, b"", 0, self.revision, 0), before))

    def since(self, revision: int) -> WatchBatch:
        events = [event for event in self.events if event.kv.mod_revision > revision]
        return WatchBatch(self.revision, events)


WRITES = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.booleans()), max_size=30)


def write(etcd: Etcd, writes: list[tuple[bytes, bool]]) -> None:
    for name, put in writes:
        if put:
            etcd.put(POD + name, b'{"r":%d}' % etcd.revision)
        else:
            etcd.delete(POD + name)


def started(etcd: Etcd) -> StoreState:
    state = StoreState(OPTIONS)
    state.load(list(etcd.now.values()), etcd.revision)
    return state


def pods(state: StoreState) -> dict[str, tuple[bytes, int]]:
    cache = next(cache for cache in state.caches if cache.resource.plural == "pods")
    return {key: (each.value, each.rv) for key, each in cache.objects.items()}


def model(etcd: Etcd) -> dict[str, tuple[bytes, int]]:
    return {f"ns/{key.removeprefix(POD).decode()}": (kv.value, kv.mod_revision) for key, kv in etcd.now.items()}


class Follower:
    """Applies events, and checks that each fits what came before."""

    def __init__(self, state: StoreState) -> None:
        self.items = pods(state)
        self.last = 0

    def take(self, key: str, event: ObjectEvent) -> None:
        assert event.rv >= self.last
        self.last = event.rv
        held = self.items.pop(key, None)
        if event.type == "DELETED":
            assert held is not None
            assert event.object == held[0] == event.previous
            return
        assert (event.type == "ADDED") == (held is None)
        assert event.previous == (held[0] if held else b"")
        self.items[key] = (event.object, event.rv)


@settings(deadline=None)
@given(WRITES, WRITES, WRITES)
def test_state_any_list_and_events_converge(
    first: list[tuple[bytes, bool]], second: list[tuple[bytes, bool]], third: list[tuple[bytes, bool]]
) -> None:
    etcd = Etcd()
    write(etcd, first)
    state = started(etcd)
    assert state.take(etcd.since(state.position), 0.0) == []  # history only
    assert state.complete
    follower = Follower(state)
    write(etcd, second)
    for change in state.take(etcd.since(state.position), 0.0):
        follower.take(change.key, change.event)
    assert follower.items == pods(state) == model(etcd)
    write(etcd, third)  # and now the store compacts all of this away
    before = pods(state)
    differs = state.replace(list(etcd.now.values()), etcd.revision)
    assert pods(state) == model(etcd)
    assert differs or pods(state) == before
    assert not state.replace(list(etcd.now.values()), etcd.revision)
    cache = next(cache for cache in state.caches if cache.resource.plural == "pods")
    assert cache.position == etcd.revision
    assert cache.since(etcd.revision - 1) is None


@settings(deadline=None)
@given(WRITES, WRITES)
def test_state_restarted_replays_same_history(
    first: list[tuple[bytes, bool]], second: list[tuple[bytes, bool]]
) -> None:
    etcd = Etcd()
    write(etcd, first)
    old = started(etcd)
    old.take(etcd.since(old.position), 0.0)
    write(etcd, second)
    published = [(change.key, change.event) for change in old.take(etcd.since(old.position), 0.0)]
    new = started(etcd)
    new.take(etcd.since(new.position), 0.0)
    cache = next(cache for cache in new.caches if cache.resource.plural == "pods")
    for mark in range(1, etcd.revision + 1):
        events = cache.since(mark)
        if mark < etcd.revision - 10:
            assert events is None
        elif mark >= old.listed_revision:
            assert events is not None
            assert [(e.key, e.value) for e in events] == [pair for pair in published if pair[1].rv > mark]


@settings(deadline=None)
@given(WRITES)
def test_state_unordered_progress_ends_history_at_listed_change(writes: list[tuple[bytes, bool]]) -> None:
    etcd = Etcd()
    write(etcd, writes)
    state = StoreState(OPTIONS)
    state.load(list(etcd.now.values()), etcd.revision, in_order=False)
    published: list[int] = []
    for event in etcd.since(state.position).events:
        published += [change.event.rv for change in state.take(WatchBatch(event.kv.mod_revision, [event]), 0.0)]
    assert state.complete
    assert published == [
        e.kv.mod_revision for e in etcd.events if e.kv.mod_revision > max(state.publish_after, etcd.revision - 10)
    ]
    assert pods(state) == model(etcd)


def test_version_parsed_tells_ordered_progress() -> None:
    for good in ("3.4.21", "3.4.23", "3.5.6", "3.5.21", "3.6.0-rc.1", "4.0.0"):
        reject_lossy_version(good)
    for bad in ("3.3.10", "3.4.20", "3.5.1", "3.5.5", "", "nonsense"):
        with pytest.raises(StoreTooOld, match="acknowledged writes"):
            reject_lossy_version(bad)
    assert [answers_in_order(v) for v in ("3.4.23", "3.4.31", "3.5.12", "3.5.13", "3.6.1")] == [0, 1, 0, 1, 1]


def test_state_repeated_batch_counts_once() -> None:
    etcd = Etcd()
    etcd.put(POD + b"a", b"1")
    state = started(etcd)
    state.take(etcd.since(0), 0.0)
    etcd.put(POD + b"a", b"2")
    assert len(state.take(etcd.since(0), 0.0)) == 1
    assert state.take(etcd.since(0), 0.0) == []


def test_state_progress_moves_position_only() -> None:
    etcd = Etcd()
    etcd.put(POD + b"a", b"1")
    state = started(etcd)
    state.take(etcd.since(0), 0.0)
    floors = [cache.window.floor for cache in state.caches]
    assert state.take(WatchBatch(500, []), 0.0) == []
    assert state.position == 500
    assert state.take(WatchBatch(400, []), 0.0) == []
    assert state.position == 500
    assert [cache.window.floor for cache in state.caches] == floors


def test_state_history_without_past_begins_later() -> None:
    etcd = Etcd()
    etcd.put(POD + b"a", b"1")
    etcd.put(POD + b"a", b"2")
    etcd.put(POD + b"a", b"3")
    state = started(etcd)
    events = [WatchEvent(e.deleted, e.kv, None if e.kv.mod_revision == 3 else e.previous) for e in etcd.events[1:]]
    state.take(WatchBatch(4, events), 0.0)
    cache = next(cache for cache in state.caches if cache.resource.plural == "pods")
    assert cache.since(2) is None
    assert [event.mark for event in cache.since(3) or []] == [4]


def test_state_skipped_history_marks_streams_with_the_list() -> None:
    etcd = Etcd()
    for value in range(3):
        etcd.put(POD + b"a", b"%d" % value)
    state = started(etcd)
    state.skip_to(etcd.revision)
    assert state.complete
    assert {cache.position for cache in state.caches} == {etcd.revision}


def test_state_snapshot_is_state_floor_history() -> None:
    etcd = Etcd()
    etcd.put(POD + b"a", b"1")
    etcd.put(POD + b"b", b"1")
    etcd.delete(POD + b"b")
    state = started(etcd)
    state.take(etcd.since(state.position), 0.0)
    cache = next(cache for cache in state.caches if cache.resource.plural == "pods")
    items = [(item.key, item.value.type, item.value.rv) for item in cache.snapshot()]  # type: ignore[union-attr]
    assert items == [
        ("ns/a", "STORED", 2),
        (FLOOR_KEY, "FLOOR", 0),
        ("@0/ns/a", "ADDED", 2),
        ("@1/ns/b", "ADDED", 3),
        ("@2/ns/b", "DELETED", 4),
    ]


def test_state_foreign_key_has_no_cache() -> None:
    etcd = Etcd()
    for key in (b"/registry/leader/ns/a", b"/registry/pods", b"/registry/pods/", b"compact_rev_key", b"\xff"):
        etcd.put(key, b"x")
    state = started(etcd)
    state.take(etcd.since(0), 0.0)
    assert all(not cache.objects and not len(cache.window) for cache in state.caches)
