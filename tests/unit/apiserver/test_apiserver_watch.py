"""What watches see, without processes: transitions, window, replica over restarts of its owner, queues, beginnings."""

import math
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from actors.apiserver.api.encoding.negotiate import PLAIN, Form
from actors.apiserver.api.errors import Expired, ServiceUnavailable
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.api.stored import Stored, splice_version
from actors.apiserver.http.connection.unread import give_back
from actors.apiserver.http.endpoints.reading import Watching
from actors.apiserver.http.fairness.control import LongRunning
from actors.apiserver.http.telemetry.metrics import RequestMetrics, WatchMetrics
from actors.apiserver.reads.reader import Reader
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import ENCODED_CHANGES, Change, Window
from actors.apiserver.table import TABLE
from actors.apiserver.watch.begin import PAUSE_EVERY, open_watch
from actors.apiserver.watch.hub import Hub, HubOptions
from actors.apiserver.watch.scope import Scope, transition
from protocols.bus import Event, Op
from protocols.messages.objects import ADDED, DELETED, FLOOR, FLOOR_KEY, MODIFIED, STORED, ObjectEvent
from tests.support.watch_wire import ByHand, Wire

CONFIGMAPS = TABLE.of("configmaps")


def raw(name: str, value: str = "", on: bool = False) -> bytes:
    metadata = {"name": name, "namespace": "ns", "labels": {"on": "1"} if on else {}}
    return msgspec.json.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"v": value}})


class World:
    """The owner's side: objects, the log of events, snapshots as the watch cache sends them."""

    def __init__(self) -> None:
        self.rv = 10
        self.objects: dict[str, tuple[int, bytes]] = {}
        self.log: list[tuple[str, ObjectEvent]] = []

    def put(self, name: str, value: str, on: bool = False) -> None:
        self.rv += 1
        key, now = f"ns/{name}", raw(name, value, on)
        before = self.objects.get(key)
        kind = MODIFIED if before else ADDED
        self.log.append((key, ObjectEvent(kind, self.rv, now, before[1] if before else b"")))
        self.objects[key] = (self.rv, now)

    def delete(self, name: str) -> None:
        before = self.objects.pop(f"ns/{name}", None)
        self.rv += 1
        if before:
            self.log.append((f"ns/{name}", ObjectEvent(DELETED, self.rv, before[1], before[1])))

    def snapshot(self, floor: int) -> list[tuple[str, ObjectEvent]]:
        items = [(key, ObjectEvent(STORED, rv, now)) for key, (rv, now) in self.objects.items()]
        items.append((FLOOR_KEY, ObjectEvent(FLOOR, floor, b"")))
        history = [(key, event) for key, event in self.log if event.rv > floor]
        return items + [(f"@{n}/{key}", event) for n, (key, event) in enumerate(history)]


def deliver(replica: Replica, key: str, event: ObjectEvent) -> None:
    op = Op.DELETE if event.type == DELETED else Op.UPSERT
    replica.on_event(Event(op, key, event, mark=event.rv))


def hub_of(replica: Replica) -> Hub:
    return Hub(replica, HubOptions(flusher=ByHand()))


def scope(labels: str = "", form: Form = PLAIN) -> Scope:
    return Scope("", selection(CONFIGMAPS, labels, ""), form)


def lines(data: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in data.splitlines()]


@pytest.mark.parametrize(
    ("was", "now", "wanted"),
    [(None, True, ADDED), (False, True, ADDED), (True, True, MODIFIED), (True, False, DELETED), (True, None, DELETED),
     (False, False, None), (None, False, None), (False, None, None)],
)  # fmt: skip
def test_transitions(was: bool | None, now: bool | None, wanted: str | None) -> None:
    before = None if was is None else Stored("ns/a", 5, raw("a", "old", was))
    after = None if now is None else Stored("ns/a", 9, raw("a", "new", now))
    seen = transition(Change("ns/a", 9, before, after), selection(CONFIGMAPS, "on=1", ""))
    assert (seen[0] if seen else None) == wanted
    if seen:
        assert seen[1].obj["metadata"]["resourceVersion"] == "9"
        assert seen[1].obj["data"]["v"] == ("old" if wanted == DELETED else "new")


def test_version_is_spliced_where_it_belongs() -> None:
    stored = splice_version(raw("a"), 7)
    assert stored is not None
    assert msgspec.json.decode(stored)["metadata"]["resourceVersion"] == "7"
    odd = b'{"spec":{"metadata":{"x":1}},"kind":"K","metadata":{"name":"a"}}'
    assert splice_version(odd, 7) is None
    assert Stored("a", 7, odd).obj["metadata"]["resourceVersion"] == "7"


def test_window_grows_while_fresh_and_forgets_the_oldest() -> None:
    window = Window(floor=5, lowest=4, highest=8)
    for rv in range(6, 30):
        window.append(Change("k", rv, None, None, at=0.0))
    assert (window.capacity, len(window)) == (8, 8)
    assert window.floor == 21
    assert [change.rv for change in window.since(26)] == [27, 28, 29]
    calm = Window(floor=5, lowest=4, highest=8)
    for rv in range(6, 12):
        calm.append(Change("k", rv, None, None, at=rv * 100.0))
    assert (calm.capacity, calm.floor) == (4, 7)


ops = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.booleans()),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.booleans()),
        st.tuples(st.just("restart"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("repeat"), st.integers(1, 4), st.booleans()),
    ),
    max_size=40,
)


@given(ops)
def test_a_watch_sees_every_change_once_over_restarts_of_the_owner(steps: list[tuple[str, Any, bool]]) -> None:
    """Snapshots with history, tails repeated: the watcher's own picture always equals the owner's state."""
    world = World()
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot(world.snapshot(world.rv), world.rv)
    hub = hub_of(replica)
    everything = Wire(open_watch(hub, scope(), ListOptions(version=world.rv)))
    chosen = Wire(open_watch(hub, scope("on=1"), ListOptions(version=world.rv)))
    mine: dict[str, dict[str, Any]] = {}
    theirs: dict[str, dict[str, Any]] = {}
    sent = 0
    for verb, argument, flag in steps:
        if verb == "restart":
            floor = max(10, replica.mark - argument)
            replica.on_snapshot(world.snapshot(floor), world.rv)
            sent = len(world.log)
        elif verb == "repeat":
            for key, event in world.log[:sent][-argument:]:  # a repetition is of what was sent
                deliver(replica, key, event)
        elif verb == "put":
            world.put(argument, str(world.rv), flag)
        else:
            world.delete(argument)
        if flag:
            for key, event in world.log[sent:]:
                deliver(replica, key, event)
            sent = len(world.log)
        _apply(mine, everything.take())
        _apply(theirs, chosen.take())
    for key, event in world.log[sent:]:
        deliver(replica, key, event)
    _apply(mine, everything.take())
    _apply(theirs, chosen.take())
    wanted = {key.partition("/")[2]: Stored(key, rv, now).obj for key, (rv, now) in world.objects.items()}
    assert mine == wanted
    assert theirs == {name: obj for name, obj in wanted.items() if obj["metadata"]["labels"]}


def _apply(picture: dict[str, dict[str, Any]], data: bytes) -> None:
    """As an informer does, and as strict: nothing is added twice, nothing unknown changes."""
    for event in lines(data):
        name = event["object"]["metadata"]["name"]
        assert (name in picture) == (event["type"] != ADDED)
        if event["type"] == DELETED:
            del picture[name]
        else:
            picture[name] = event["object"]


def test_without_history_the_difference_is_sent_and_old_versions_expire() -> None:
    world = World()
    for name in "abc":
        world.put(name, "1")
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot(world.snapshot(10), world.rv)
    hub = hub_of(replica)
    wire = Wire(open_watch(hub, scope(), ListOptions(version=world.rv)))
    before = world.rv
    world.put("b", "2")
    world.delete("a")
    world.put("d", "1")
    replica.on_snapshot(world.snapshot(world.rv), world.rv)
    told = [(event["type"], event["object"]["metadata"]["name"]) for event in lines(wire.take())]
    assert told == [(MODIFIED, "b"), (DELETED, "a"), (ADDED, "d")]
    with pytest.raises(Expired, match="too old resource version"):
        open_watch(hub, scope(), ListOptions(version=before))


def test_a_watch_from_the_past_replays_then_follows() -> None:
    world = World()
    world.put("a", "1")
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot(world.snapshot(10), world.rv)
    hub = hub_of(replica)
    world.put("a", "2")
    deliver(replica, *world.log[-1])
    wire = Wire(open_watch(hub, scope(), ListOptions(version=11)))
    assert [event["object"]["data"]["v"] for event in lines(wire.take())] == ["2"]
    world.put("a", "3")
    deliver(replica, *world.log[-1])
    assert [event["object"]["data"]["v"] for event in lines(wire.take())] == ["3"]


def test_a_watch_from_within_a_revision_gets_the_rest_of_it() -> None:
    """As while the events of a lease expire: a thousand deletions of one revision come one by one."""
    world = World()
    for name in "ab":
        world.put(name, "1")
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot(world.snapshot(10), world.rv)
    gone = [ObjectEvent(DELETED, world.rv + 1, raw(name, "1"), raw(name, "1")) for name in "ab"]
    deliver(replica, "ns/a", msgspec.structs.replace(gone[0], more=True))
    assert (replica.mark, len(replica.objects)) == (world.rv, 2)
    wire = Wire(open_watch(hub_of(replica), scope(), ListOptions(version=replica.mark)))
    deliver(replica, "ns/b", gone[1])
    assert replica.mark == world.rv + 1
    assert [event["object"]["metadata"]["name"] for event in lines(wire.take())] == ["a", "b"]


def test_equal_watches_share_one_encoding() -> None:
    world = World()
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot([], world.rv)
    hub = hub_of(replica)
    wires = [Wire(open_watch(hub, scope(), ListOptions(version=world.rv))) for _ in range(3)]
    world.put("a", "1")
    deliver(replica, *world.log[-1])
    assert wires[0].take() == wires[2].take() != b""
    first, *others = [wire.writes[-1] for wire in wires]
    assert all(other is first for other in others)


def test_table_columns_come_with_the_first_event_only() -> None:
    world = World()
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot([], world.rv)
    wire = Wire(open_watch(hub_of(replica), scope(form=Form(view="Table")), ListOptions(version=world.rv)))
    for value in "12":
        world.put("a", value)
        deliver(replica, *world.log[-1])
    tables = [event["object"] for event in lines(wire.take())]
    assert [bool(table["columnDefinitions"]) for table in tables] == [True, False]
    assert tables[0]["rows"][0]["cells"][:2] == ["a", 1]


@pytest.mark.parametrize("version", [None, 11])
def test_table_of_initial_events_is_encoded_as_it_is_written_and_not_retained(version: int | None) -> None:
    world = World()
    replica = Replica(CONFIGMAPS)
    replica.on_snapshot([], world.rv)
    for number in range(2 * ENCODED_CHANGES):
        world.put(f"a{number}", "1")
        deliver(replica, *world.log[-1])
    opened = open_watch(hub_of(replica), scope(form=Form(view="Table")), ListOptions(version=version))
    assert not any(change.encoded for change in replica.window.since(0)), "opening it must not hold the event loop"
    world.put("live", "1")
    deliver(replica, *world.log[-1])
    tables = [event["object"] for event in lines(Wire(opened).take())]
    assert [bool(table["columnDefinitions"]) for table in tables[:2]] == [True, False]
    assert sum(bool(change.encoded) for change in replica.window.since(0)) <= ENCODED_CHANGES


def test_window_frees_large_changes_after_many_small_ones() -> None:
    window, large = Window(lowest=4, highest=4096), Stored("k", 1, bytes(60 * 1024))
    for rv in range(1, 3000):
        window.append(Change("k", rv, None, Stored("k", rv, b"x"), at=0.0))
    assert window.capacity == 4096
    for rv in range(3000, 9000):
        window.append(Change("k", rv, None, large, at=0.0))
    assert len(window._changes) < 1.5 * len(window)


async def test_lost_connection_of_an_ended_watch_leaves_the_next_of_its_scope_alone() -> None:
    hub = hub_of(Replica(CONFIGMAPS))
    before = Wire(open_watch(hub, scope(), ListOptions())).watcher
    before.finish(reusable=False)
    after = hub.join(scope(), 0, bookmarks=True)
    before.lost()
    assert list(hub.watchers()) == [after]
    assert not hub.empty.is_set()


async def test_watch_of_a_definition_that_changes_while_it_begins_is_refused() -> None:
    hub = hub_of(Replica(CONFIGMAPS))
    hubs = {CONFIGMAPS.gvr: hub}

    class Reader:
        efficient = True

        async def revision(self, resource: Any) -> int:
            return 0

        async def fresh(self, resource: Any) -> None:
            hubs.pop(CONFIGMAPS.gvr).retire()

    reader: Any = Reader()
    registry = CollectorRegistry()
    metrics = WatchMetrics(registry, RequestMetrics(registry))
    watching = Watching(reader, hubs, metrics, LongRunning())
    request: Any = SimpleNamespace(
        options=ListOptions(), target=SimpleNamespace(namespace=""), wanted=selection(CONFIGMAPS, "", ""), form=PLAIN
    )
    with pytest.raises(ServiceUnavailable, match="has changed"):
        await watching._open(request, hub)
    assert hub.empty.is_set()


class Messages:
    """Stands for the transport of a watch over a websocket."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append

    def set_protocol(self, protocol: object) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...


async def test_watch_over_a_websocket_holds_its_seats_until_its_initial_events_are_written() -> None:
    world, flusher, replica, seats = World(), ByHand(), Replica(CONFIGMAPS), list[str]()
    for number in range(3 * PAUSE_EVERY):
        world.put(f"a{number}", "1")
    replica.on_snapshot(world.snapshot(10), world.rv)
    registry = CollectorRegistry()
    metrics = WatchMetrics(registry, RequestMetrics(registry))
    hub, reader, messages = (
        Hub(replica, HubOptions(flusher=flusher)),
        SimpleNamespace(efficient=False, revision=None),
        Messages(),
    )
    watching = Watching(cast(Reader, reader), {CONFIGMAPS.gvr: hub}, metrics, LongRunning())
    request: Any = SimpleNamespace(
        options=ListOptions(),
        target=SimpleNamespace(namespace=""),
        wanted=selection(CONFIGMAPS, "", ""),
        form=PLAIN,
        expires=math.inf,
    )
    give_back.set(lambda: seats.append("back"))
    await watching._connected(request, hub, cast(Any, messages))
    assert messages.written
    assert not seats
    flusher.settle()
    assert len(lines(b"".join(messages.written))) == 3 * PAUSE_EVERY
    assert seats == ["back"]
