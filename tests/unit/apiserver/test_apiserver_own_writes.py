"""A replica applies own writes early: the changes and their order are as with the watch cache's events alone."""

import logging
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.replica import own_writes, unconfirmed
from actors.apiserver.replica.own_writes import OwnWrite, OwnWrites
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.table import TABLE
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.resource_cache import op_of
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.cache.window import WindowOptions
from actors.watchcache.shell.bus_streams import ResourceStream
from protocols.bus import Event
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, WatchBatch, WatchEvent
from protocols.messages.objects import ADDED, DELETED, ObjectEvent

ROWS = (TABLE.of("configmaps"), TABLE.of("secrets"))
NAMES = [row.store for row in ROWS]
Seen = tuple[str, int, bytes | None, bytes | None]
"""Key, revision, content before and after."""


def options(window: int) -> WatchcacheOptions:
    return WatchcacheOptions(
        etcd=EtcdOptions(endpoints=("unix:/none",)), window=WindowOptions(min_capacity=window, max_capacity=window)
    )


class Store:
    """The true history."""

    def __init__(self, base: "Store | None" = None) -> None:
        self.now: dict[bytes, KeyValue] = dict(base.now) if base else {}
        self.batches: list[list[WatchEvent]] = list(base.batches) if base else []
        """Events of each revision, from FIRST on."""

    @property
    def revision(self) -> int:
        return FIRST + len(self.batches) - 1

    def write(self, row: int, *names: str) -> OwnWrite:
        """Write objects in one revision: existing ones whose name is upper case go, others come or change."""
        revision, events = self.revision + 1, []
        for name in dict.fromkeys(map(str.lower, names)):
            key = f"{ROWS[row].storage_prefix}ns/{name}".encode()
            before = self.now.get(key)
            if before and name.upper() in names:
                del self.now[key]
                events.append(WatchEvent(True, KeyValue(key, b"", 0, revision, 0), before))
                continue
            created = before.create_revision if before else revision
            self.now[key] = KeyValue(key, body(name, revision), created, revision, 1)
            events.append(WatchEvent(False, self.now[key], before))
        self.batches.append(events)
        return self._own(row, events[-1])

    def _own(self, row: int, event: WatchEvent) -> OwnWrite:
        key, rv = event.kv.key.decode().removeprefix(ROWS[row].storage_prefix), event.kv.mod_revision
        raw = None if event.deleted else event.kv.value
        return OwnWrite(key, rv, event.previous.mod_revision if event.previous else 0, raw)

    def seen(self, row: int, after: int = 0) -> list[Seen]:
        """Return the changes of a resource above a revision."""
        prefix = ROWS[row].storage_prefix
        return [
            (
                event.kv.key.decode().removeprefix(prefix),
                event.kv.mod_revision,
                event.previous.value if event.previous else None,
                None if event.deleted else event.kv.value,
            )
            for events in self.batches
            for event in events
            if event.kv.key.startswith(prefix.encode()) and event.kv.mod_revision > after
        ]

    def held(self, row: int) -> dict[str, tuple[int, bytes]]:
        prefix = ROWS[row].storage_prefix
        found = {key.decode(): kv for key, kv in self.now.items() if key.startswith(prefix.encode())}
        return {key.removeprefix(prefix): (kv.mod_revision, kv.value) for key, kv in found.items()}


FIRST = 10


def body(name: str, number: int) -> bytes:
    metadata = {"name": name, "namespace": "ns", "generation": number}
    return msgspec.json.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})


class Follower:
    """The replicas of one process, and what their listeners saw."""

    def __init__(self) -> None:
        self.own = OwnWrites()
        self.replicas = [Replica(row, own_writes=self.own) for row in ROWS]
        self.seen: list[list[Seen]] = [[] for _ in ROWS]
        self.wanted = [False for _ in ROWS]
        """True for a replica that requested a snapshot."""
        for row, replica in enumerate(self.replicas):
            replica.listen(partial(self._on_change, row))
            replica.refetch = partial(self.wanted.__setitem__, row, True)

    def _on_change(self, row: int, change: Change) -> None:
        before, after = change.before, change.after
        self.seen[row].append((change.key, change.rv, before.raw if before else None, after.raw if after else None))

    def acknowledge(self, row: int, write: OwnWrite) -> None:
        self.own.add(NAMES[row], write)
        for name in tuple(self.own.waiting):
            self.replicas[NAMES.index(name)].apply_own()


class Cache:
    """A watch cache that follows a store, and the bus to the followers."""

    def __init__(self, store: Store, window: int, *followers: Follower) -> None:
        self._followers, self._window = followers, window
        self.restart(store)

    def restart(self, store: Store, resumes: bool = False) -> None:
        """Begin anew, from the current state and its history. Followers that cannot resume get a snapshot."""
        self._store, self._state = store, StoreState(options(self._window))
        self._state.load(list(store.now.values()), store.revision)
        self._state.take(WatchBatch(store.revision, [event for events in store.batches for event in events]), 0.0)
        found = {cache.resource.full_name: cache for cache in self._state.caches}
        self._caches = [found[name] for name in NAMES]
        for follower in self._followers:
            for row, replica in enumerate(follower.replicas):
                replica.on_synced(False)
                self._resume(follower, row, resumes)
                replica.on_synced(True)

    @property
    def behind(self) -> int:
        return self._store.revision - self._state.position

    def take(self, revisions: int) -> None:
        """Take the next revisions, and publish them in one batch."""
        begin = self._state.position - FIRST + 1
        events = [event for batch in self._store.batches[begin : begin + revisions] for event in batch]
        for change in self._state.take(WatchBatch(self._state.position + revisions, events), 0.0):
            event = Event(op_of(change.event), change.key, change.event, mark=change.event.rv)
            for follower in self._followers:
                follower.replicas[self._caches.index(change.cache)].on_event(event)

    def tick(self) -> None:
        """Publish the marks; a replica that asked for a snapshot gets it."""
        for follower in self._followers:
            for row, replica in enumerate(follower.replicas):
                if follower.wanted[row]:
                    self._resume(follower, row, False)
                replica.on_mark(self._caches[row].position)

    def _resume(self, follower: Follower, row: int, resumes: bool) -> None:
        replica, cache = follower.replicas[row], self._caches[row]
        source = ResourceStream(cache)
        mark = replica._unconfirmed.mark
        events = source.since(mark) if resumes and 0 < mark <= cache.position else None
        for event in events or ():
            assert isinstance(event.value, ObjectEvent)
            replica.on_event(Event(event.op, event.key, event.value, mark=event.mark))
        if events is None:
            items = [(item.key, item.value) for item in source.snapshot()]
            follower.wanted[row] = False
            replica.on_snapshot(items, cache.position)  # type: ignore[arg-type]
        else:
            replica.on_mark(cache.position)


ROW = st.integers(0, 1)
NAME = st.sampled_from("abcABC")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("own"), ROW, NAME),
        st.tuples(st.just("own"), ROW, NAME),
        st.tuples(st.just("own unanswered"), ROW, NAME),
        st.tuples(st.just("foreign"), ROW, st.text("abcABC", min_size=1, max_size=3)),
        st.tuples(st.just("acknowledge"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("acknowledge"), st.integers(0, 1), st.just("")),
        st.tuples(st.just("publish"), st.integers(1, 5), st.just("")),
        st.tuples(st.just("restart"), ROW, st.just("")),
        st.tuples(st.just("tick"), ROW, st.just("")),
    ),
    max_size=60,
)
BOUNDED = ((own_writes, "RUNS"), (own_writes, "WAITING"), (unconfirmed, "MOST"))
BOUNDS = st.tuples(*(st.sampled_from([1, 3, 1000]) for _ in BOUNDED))


class Story:
    """Two followers of one watch cache, one of which hears of own writes from the store."""

    def __init__(self, window: int = 100) -> None:
        self.store, self.plain, self.early = Store(), Follower(), Follower()
        self.store.write(0, "a")
        self.cache = Cache(self.store, window, self.plain, self.early)
        self.begun = self.store.revision
        self.store.write(1, "a")
        self.cache.take(1)
        self.cache.tick()  # of a revision with an event, more may come: this is later than the first resource's
        self.answers: list[tuple[int, OwnWrite]] = []
        self.newest = 0
        """Newest revision of an answer."""

    def step(self, what: str, number: int, name: str) -> None:
        if what.startswith("own"):
            write = self.store.write(number, name)
            self.answers += [(number, write)] if what == "own" else []
            self.newest = max(self.newest, write.rv)
        elif what == "foreign":
            self.store.write(number, *name)
        elif what == "acknowledge" and self.answers:
            self.early.acknowledge(*self.answers.pop(number % len(self.answers)))
        elif what == "publish":
            self.cache.take(min(number, self.cache.behind))
        elif what == "restart":
            self.cache.restart(self.store, resumes=bool(number))
        elif what == "tick":
            self.cache.tick()

    def check(self) -> None:
        for row, replica in enumerate(self.early.replicas):
            early, plain = self.early.seen[row], self.plain.seen[row]
            true = self.store.seen(row, self.begun)
            assert early[: len(plain)] == plain, "not later, in the same order"
            assert early == true[: len(early)], "no gap, nothing twice, the objects before and after"
            assert replica.mark >= self.plain.replicas[row].mark
            missing = [rv for _, rv, _, _ in true[len(early) :] if rv < replica.mark]
            assert not missing, "everything below the mark is there"
            assert not replica.histories_replaced
        assert self.early.wanted == [False, False]


@given(steps=STEPS, bounds=BOUNDS)
def test_own_writes_change_only_when_the_changes_come(
    steps: list[tuple[str, int, str]], bounds: tuple[int, ...]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), bound in zip(BOUNDED, bounds, strict=True):
            patch.setattr(module, name, bound)
        story = Story()
        for step in steps:
            story.step(*step)
            story.check()
        story.cache.take(story.cache.behind)
        story.cache.tick()
        story.check()
    for row, replica in enumerate(story.early.replicas):
        assert story.early.seen[row] == story.plain.seen[row]
        assert {each.key: (each.rv, each.raw) for each in replica.objects.below("")} == story.store.held(row)


@given(before=STEPS, lost=STEPS, after=STEPS)
def test_own_writes_of_a_replaced_history_are_forgotten(
    before: list[tuple[str, int, str]], lost: list[tuple[str, int, str]], after: list[tuple[str, int, str]]
) -> None:
    story = Story()
    for step in before:
        story.step(*step)
    backup = Store(story.store)
    for step in lost:
        story.step(*step)
    logging.disable(logging.WARNING)
    try:
        story.store = backup
        for step in after:
            if step[0] not in ("publish", "tick", "restart"):  # the watch cache is not there
                story.step(*step)
        story.cache.restart(backup, resumes=True)
        while backup.revision <= story.newest:
            backup.write(1, "a")  # up to there nobody can know that a late answer was of a lost write
        story.cache.take(story.cache.behind)
        story.cache.tick()
        story.cache.tick()  # brings the snapshots that are requested now
    finally:
        logging.disable(logging.NOTSET)
    for row, replica in enumerate(story.early.replicas):
        assert {each.key: (each.rv, each.raw) for each in replica.objects.below("")} == backup.held(row)
        assert replica.mark == backup.revision


def test_own_write_is_applied_when_the_store_acknowledges_it() -> None:
    story = Story()
    for step in [("own", 0, "b"), ("own", 1, "b"), ("own", 0, "A"), ("own", 0, "c")]:
        story.step(*step)
    for _ in range(4):
        story.step("acknowledge", 0, "")
    story.check()
    assert [rv for _, rv, _, _ in story.early.seen[0]] == [12, 14, 15]
    assert story.early.replicas[0].mark == 15
    assert not story.plain.seen[0]


def test_own_write_waits_for_the_answer_of_one_before_it() -> None:
    story = Story()
    story.step("own", 0, "b")
    story.step("own", 0, "c")
    story.step("acknowledge", 1, "")
    assert not story.early.seen[0]
    story.step("acknowledge", 0, "")
    assert [rv for _, rv, _, _ in story.early.seen[0]] == [12, 13]


def test_own_write_waits_for_all_objects_of_a_foreign_revision() -> None:
    story = Story()
    story.step("foreign", 0, "bc")
    story.step("own", 0, "b")
    story.step("acknowledge", 0, "")
    story.step("publish", 1, "")
    story.check()
    assert [key for key, _, _, _ in story.early.seen[0]] == ["ns/b", "ns/c"]


def test_replica_ahead_of_a_restarted_watch_cache_expires_nobody() -> None:
    story = Story()
    old = Store(story.store)
    story.step("own", 0, "b")
    story.step("acknowledge", 0, "")
    story.cache.restart(old)
    story.cache.restart(old, resumes=True)
    story.cache.restart(story.store)
    story.check()
    assert [rv for _, rv, _, _ in story.early.seen[0]] == [12]


@pytest.mark.parametrize("other", [ObjectEvent(ADDED, 12, body("b", 0)), ObjectEvent(DELETED, 12, b"{}")])
def test_event_that_is_not_the_own_write_fetches_the_state(
    other: ObjectEvent, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story()
    story.step("own", 0, "b")
    story.step("acknowledge", 0, "")
    story.early.replicas[0].on_event(Event(op_of(other), "ns/b", other, mark=12))
    assert story.early.wanted[0]
    story.cache.take(1)
    story.cache.tick()
    assert story.early.replicas[0].histories_replaced == 0, "the state agrees with what was applied"
    assert "ns/b of revision 12 is not what was applied here" in caplog.text


def test_own_write_that_the_watch_cache_never_reports_fetches_the_state(caplog: pytest.LogCaptureFixture) -> None:
    story = Story()
    story.step("own", 0, "b")
    story.step("acknowledge", 0, "")
    story.early.replicas[0].on_mark(13)
    assert story.early.wanted[0]
    assert "a change applied here did not come up to revision 13" in caplog.text


def test_unreadable_own_write_waits_for_the_watch_cache() -> None:
    story = Story()
    story.early.acknowledge(0, OwnWrite("ns/b", 12, 0, b"{"))
    story.early.acknowledge(0, OwnWrite("ns/c", 13, 0, body("c", 1)))
    assert not story.early.seen[0]
