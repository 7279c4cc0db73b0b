"""A replica whose store got another history forgets its own; one whose store only went on never does."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.encoding.negotiate import PLAIN
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.reads.reader import objects_at
from actors.apiserver.replica.replica import Replica
from actors.apiserver.table import TABLE
from actors.apiserver.watch.begin import open_watch
from actors.apiserver.watch.hub import HISTORY_REPLACED, Hub, HubOptions
from actors.apiserver.watch.scope import Scope
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.shell.bus_streams import ResourceStream
from protocols.bus import Event, Item, Op
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, WatchBatch, WatchEvent
from protocols.messages.objects import ADDED, FLOOR, FLOOR_KEY, STORED, ObjectEvent
from tests.support.watch_wire import ByHand, Wire

CONFIGMAPS = TABLE.of("configmaps")
PREFIX = b"/registry/configmaps/"
OPTIONS = WatchcacheOptions(etcd=EtcdOptions(endpoints=("unix:/none",)))
Write = tuple[str, bool, int]
"""Name, whether it is put, value."""
WRITES = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 2)), max_size=20)


class Store:
    def __init__(self, writes: list[Write]) -> None:
        self.now: dict[bytes, KeyValue] = {}
        self.events: list[WatchEvent] = []
        self.revision = 1
        for write in writes:
            self.write(write)

    def write(self, write: Write) -> None:
        name, put, value = write
        key = PREFIX + b"ns/" + name.encode()
        before = self.now.pop(key, None)
        self.revision += 1  # writes of other resources take a revision, too
        if put:
            body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"v": str(value)}}
            created = before.create_revision if before else self.revision
            kv = self.now[key] = KeyValue(key, msgspec.json.encode(body), created, self.revision, 1)
            self.events.append(WatchEvent(False, kv, before))
        elif before:
            self.events.append(WatchEvent(True, KeyValue(key, b"", 0, self.revision, 0), before))

    def relisted(self, state: StoreState) -> ResourceStream:
        """As a watch cache shows it that has just listed after a compaction."""
        state.replace(list(self.now.values()), self.revision)
        return stream(state)

    def cache(self) -> ResourceStream:
        """As a watch cache that has just started shows it."""
        state = StoreState(OPTIONS)
        state.load(list(self.now.values()), self.revision)
        state.take(WatchBatch(self.revision, self.events), 0.0)
        return stream(state)


def stream(state: StoreState) -> ResourceStream:
    return ResourceStream(next(cache for cache in state.caches if cache.resource.plural == "configmaps"))


def follow(replica: Replica, store: Store) -> None:
    """What the bus does when the watch cache was restarted."""
    source = store.cache()
    wanted: list[bool] = []
    replica.refetch = lambda: wanted.append(True)
    events = source.since(replica.mark) if 0 < replica.mark <= store.revision else None
    for event in events or ():
        assert isinstance(event.value, ObjectEvent)
        replica.on_event(Event(event.op, event.key, event.value, mark=event.mark))
    if events is None or wanted:
        replica.on_snapshot(list(_items(source.snapshot())), store.revision)
    else:
        replica.on_mark(store.revision)


def _items(items: object) -> Iterator[tuple[str, ObjectEvent]]:
    for item in items:  # type: ignore[attr-defined]
        assert isinstance(item, Item)
        assert isinstance(item.value, ObjectEvent)
        yield item.key, item.value


def shown(replica: Replica) -> dict[str, tuple[int, bytes]]:
    return {each.key: (each.rv, each.raw) for each in replica.objects.below("")}


def stored(store: Store) -> dict[str, tuple[int, bytes]]:
    return {key.removeprefix(PREFIX).decode(): (kv.mod_revision, kv.value) for key, kv in store.now.items()}


@given(WRITES, WRITES, WRITES)
def test_replica_shows_what_a_restored_store_holds(backup: list[Write], lost: list[Write], new: list[Write]) -> None:
    replica = Replica(CONFIGMAPS)
    told: dict[str, bytes | None] = {}
    replica.listen(lambda change: told.update({change.key: change.after.raw if change.after else None}))
    follow(replica, before := Store(backup + lost))
    told.update({key: raw for key, (_, raw) in stored(before).items()})
    follow(replica, after := Store(backup + new))
    assert shown(replica) == stored(after)
    assert {key: raw for key, raw in told.items() if raw} == {key: raw for key, (_, raw) in stored(after).items()}
    assert replica.mark == after.revision


@given(WRITES, WRITES)
def test_replica_of_a_store_that_went_on_forgets_nothing(before: list[Write], more: list[Write]) -> None:
    replica = Replica(CONFIGMAPS)
    follow(replica, Store(before))
    follow(replica, after := Store(before + more))
    assert shown(replica) == stored(after)
    assert replica.histories_replaced == 0


@given(WRITES, WRITES)
def test_replica_after_a_compaction_is_the_store_at_each_mark(before: list[Write], compacted: list[Write]) -> None:
    replica, store, state = Replica(CONFIGMAPS), Store(before), StoreState(OPTIONS)
    follow(replica, store)
    state.load(list(store.now.values()), store.revision)
    marks: list[tuple[int, dict[str, tuple[int, bytes]]]] = []
    replica.listen_mark(lambda mark: marks.append((mark, shown(replica))))
    for write in compacted:
        store.write(write)
    source = store.relisted(state)
    events = source.since(replica.mark)
    assert (events is None) == bool(compacted)
    replica.on_snapshot(list(_items(source.snapshot())), store.revision)
    assert marks == [(store.revision, stored(store))] * bool(compacted)
    assert shown(replica) == stored(store)
    assert replica.histories_replaced == 0


@given(WRITES)
def test_replica_filled_from_a_history_has_each_revision_of_it(writes: list[Write]) -> None:
    replica, store = Replica(CONFIGMAPS), Store([])
    states = {store.revision: stored(store)}
    for write in writes:
        store.write(write)
        states[store.revision] = stored(store)
    follow(replica, store)
    assert replica.window.floor <= min(states)
    for revision, state in states.items():
        found = objects_at(replica.objects, replica.window, revision, "")
        assert {each.key: (each.rv, each.raw) for each in found or ()} == state


@pytest.mark.parametrize("jammed", [False, True])
def test_watch_of_a_replaced_history_ends_with_410(jammed: bool) -> None:
    replica = Replica(CONFIGMAPS)
    follow(replica, Store([("a", True, 1), ("b", True, 1)]))
    flusher = ByHand()
    hub = Hub(replica, HubOptions(flusher=flusher))
    scope = Scope("", selection(CONFIGMAPS, "", ""), PLAIN)
    wire = Wire(open_watch(hub, scope, ListOptions(version=replica.mark)), chunked=False)
    flusher.settle()
    if jammed:
        wire.watcher.pause()
    follow(replica, Store([("a", True, 1), ("c", True, 1)]))
    flusher.settle()
    if jammed:
        wire.watcher.resume()
        flusher.settle()
    event = msgspec.json.decode(b"".join(wire.writes).splitlines()[-1])
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"] == HISTORY_REPLACED
    assert wire.ended is not None
    assert hub.empty.is_set()


def test_replica_with_part_of_a_revision_gets_the_rest_from_a_snapshot_whose_history_begins_after_it() -> None:
    replica, first, second = Replica(CONFIGMAPS), _body("a"), _body("b")
    replica.on_snapshot([], 1)
    replica.on_event(Event(Op.UPSERT, "ns/a", ObjectEvent(ADDED, 5, first), mark=5))

    state = [("ns/a", ObjectEvent(STORED, 5, first)), ("ns/b", ObjectEvent(STORED, 5, second))]
    replica.on_snapshot([*state, (FLOOR_KEY, ObjectEvent(FLOOR, 5, b""))], 6)

    assert [each.key for each in replica.objects.below("")] == ["ns/a", "ns/b"]
    assert replica.window.floor == 6


def test_replica_with_a_whole_revision_keeps_its_history_with_a_snapshot_that_begins_after_it() -> None:
    replica, first = Replica(CONFIGMAPS), _body("a")
    replica.on_snapshot([], 1)
    replica.on_event(Event(Op.UPSERT, "ns/a", ObjectEvent(ADDED, 5, first), mark=5))

    replica.on_snapshot([("ns/a", ObjectEvent(STORED, 5, first)), (FLOOR_KEY, ObjectEvent(FLOOR, 5, b""))], 6)

    assert replica.window.floor == 1


def test_replica_object_created_again_in_a_gap_is_deleted_first() -> None:
    replica, seen = Replica(CONFIGMAPS), list[tuple[int, bool, bool]]()
    replica.on_snapshot([("ns/a", ObjectEvent(STORED, 5, _body("a", "old")))], 6)
    replica.listen(lambda change: seen.append((change.rv, change.before is not None, change.after is not None)))

    state = [("ns/a", ObjectEvent(STORED, 9, _body("a", "new"))), (FLOOR_KEY, ObjectEvent(FLOOR, 10, b""))]
    replica.on_snapshot(state, 10)

    assert seen == [(8, True, False), (9, False, True)]


def test_replica_objects_created_again_in_one_revision_are_all_deleted_first() -> None:
    """As a restored set of objects in one transaction."""
    replica, seen = Replica(CONFIGMAPS), list[tuple[str, int, bool]]()
    held = [(f"ns/{name}", ObjectEvent(STORED, rv, _body(name, "old"))) for rv, name in enumerate("ab", 5)]
    replica.on_snapshot(held, 6)
    replica.listen(lambda change: seen.append((change.key, change.rv, change.after is not None)))

    state = [(f"ns/{name}", ObjectEvent(STORED, 9, _body(name, "new"))) for name in "ab"]
    replica.on_snapshot([*state, (FLOOR_KEY, ObjectEvent(FLOOR, 10, b""))], 10)

    assert seen == [("ns/a", 8, False), ("ns/b", 8, False), ("ns/a", 9, True), ("ns/b", 9, True)]


def test_replica_deletions_in_a_gap_share_no_revision_with_a_later_event() -> None:
    """A watch that ends behind the first of them would go on behind all."""
    replica, seen = Replica(CONFIGMAPS), list[tuple[str, int, bool]]()
    replica.on_snapshot([(f"ns/{name}", ObjectEvent(STORED, rv, _body(name))) for rv, name in enumerate("abc", 3)], 5)
    replica.listen(lambda change: seen.append((change.key, change.rv, change.after is not None)))

    state = [("ns/a", ObjectEvent(STORED, 3, _body("a"))), ("ns/d", ObjectEvent(STORED, 10, _body("d")))]
    replica.on_snapshot([*state, (FLOOR_KEY, ObjectEvent(FLOOR, 10, b""))], 10)

    assert seen == [("ns/b", 9, False), ("ns/c", 9, False), ("ns/d", 10, True)]
    assert replica.window.floor == 10


def test_replica_deletion_in_the_next_revision_is_told_at_it() -> None:
    replica, seen = Replica(CONFIGMAPS), list[tuple[str, int, bool]]()
    replica.on_snapshot([("ns/a", ObjectEvent(STORED, 5, _body("a")))], 5)
    replica.listen(lambda change: seen.append((change.key, change.rv, change.after is not None)))

    replica.on_snapshot([(FLOOR_KEY, ObjectEvent(FLOOR, 6, b""))], 6)

    assert seen == [("ns/a", 6, False)]


def _body(name: str, uid: str = "") -> bytes:
    metadata = {"name": name, "namespace": "ns", "uid": uid}
    return msgspec.json.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
