"""How a watch's bytes reach its connection: order, one write for many events, congestion, the index of channels."""

import asyncio
import time
from typing import Any
from unittest.mock import Mock, patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.encoding.negotiate import PLAIN, Form
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.table import TABLE
from actors.apiserver.watch import begin, channel, watcher
from actors.apiserver.watch.backlog import BACKLOG_BYTES, Backlog
from actors.apiserver.watch.begin import Opened, open_watch
from actors.apiserver.watch.channel import LONGEST_PAUSE, SHARED_BY_MANY, TURN
from actors.apiserver.watch.hub import Hub, HubOptions
from actors.apiserver.watch.scope import NODE, Index, Scope
from actors.apiserver.watch.timers import LONG_TURN_S, TURN_S, Alarms, Flusher, chunk
from actors.apiserver.watch.watcher import QUEUE_LIMIT, Meter
from protocols.bus import Event, Op
from protocols.messages.objects import ADDED, ObjectEvent
from tests.support.watch_wire import ByHand, Wire, unchunk

PODS = TABLE.of("pods")


def pod(name: str, node: str = "") -> bytes:
    spec = b',"spec":{"nodeName":"%b"}' % node.encode() if node else b""
    head = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%b","namespace":"ns"}' % name.encode()
    return head + spec + b"}"


class Told(Meter):
    def __init__(self) -> None:
        self.events = 0
        self.slow_ones = 0
        self.bookmarks: list[bool] = []

    def sent(self, watches: int, size: int) -> None:
        self.events += watches

    def slow(self) -> None:
        self.slow_ones += 1

    def last_bookmark(self, told: bool) -> None:
        self.bookmarks.append(told)


class Lab:
    """A hub, driven by hand."""

    def __init__(self, backlog: int = BACKLOG_BYTES) -> None:
        self.replica = Replica(PODS)
        self.replica.on_snapshot([], 10)
        self.flusher, self.meter, self.backlog = ByHand(), Told(), Backlog(backlog)
        self.hub = Hub(self.replica, HubOptions(self.meter, Alarms(), self.flusher, backlog=self.backlog))

    def open(self, fields: str = "", version: int = 10, bookmarks: bool = True) -> Opened:
        scope = Scope("", selection(PODS, "", fields), PLAIN)
        return open_watch(self.hub, scope, ListOptions(version=version, bookmarks=bookmarks))

    def put(self, *names: str) -> None:
        for name in names:
            event = ObjectEvent(ADDED, self.replica.mark + 1, pod(name))
            self.replica.on_event(Event(Op.UPSERT, f"ns/{name}", event, mark=event.rv))


def names(data: bytes) -> list[str]:
    """Of the objects seen, `*` for a bookmark."""
    return [event["object"]["metadata"].get("name", "*") for event in events(data)]


def events(data: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in data.splitlines()]


def test_events_of_one_turn_leave_in_one_write_that_all_share() -> None:
    lab = Lab()
    one, two = Wire(lab.open()), Wire(lab.open())
    lab.put("a", "b", "c")
    lab.hub.bookmark(one.watcher)
    lab.flusher.turn()
    assert len(one.writes) == 1
    assert one.writes[0] is two.writes[0]
    assert names(one.take()) == ["a", "b", "c"], "a bookmark that moves nothing is left out"


@pytest.mark.parametrize(("watches", "gathers"), [(SHARED_BY_MANY, False), (SHARED_BY_MANY + 1, True), (500, True)])
def test_channel_of_many_watches_gathers_events_after_a_write(
    watches: int, gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    lab = Lab()
    wires = [Wire(lab.open()) for _ in range(watches)]
    lab.put("a")
    lab.flusher.turn()
    lab.put("b", "c")
    first, second = lab.flusher.waits
    assert first <= 0, "a lone event is not delayed"
    assert (0 < second <= LONGEST_PAUSE) == gathers
    lab.flusher.turn()
    assert {tuple(names(unchunk(data))) for wire in wires for data in wire.writes} == {("a",), ("b", "c")}


def test_the_head_and_what_a_watch_missed_leave_in_one_write() -> None:
    lab = Lab()
    lab.put("a", "b")
    assert Wire(lab.open(version=12), head=b"head").writes == [b"head"]
    for wire in (Wire(lab.open(), head=b"head"), Wire(lab.open(), chunked=False, head=b"head")):
        [first] = wire.writes
        missed = first.removeprefix(b"head")
        assert names(unchunk(missed) if wire.chunked else missed) == ["a", "b"]


def test_a_connection_that_is_congested_from_the_start_begins_with_its_head_alone() -> None:
    lab = Lab()
    lab.put("a")
    opened = lab.open()
    opened.watcher.congested = True
    wire = Wire(opened, head=b"head")
    lab.put("b")
    lab.flusher.settle()
    assert wire.writes == [b"head"]
    wire.relieve()
    lab.flusher.settle()
    assert names(b"".join(unchunk(data) for data in wire.writes[1:])) == ["a", "b"]


def test_nobody_waits_for_a_connection_that_is_congested() -> None:
    lab = Lab()
    slow, quick = Wire(lab.open()), Wire(lab.open())
    slow.jam()
    lab.put("a")
    lab.flusher.settle()
    lab.put("b")
    lab.replica.on_mark(40)
    assert not lab.hub.bookmark(slow.watcher), "it waits"
    assert lab.hub.bookmark(quick.watcher)
    lab.put("c")
    assert names(quick.take()) == ["a", "b", "*", "c"]
    assert names(slow.take()) == ["a"]
    slow.relieve()
    lab.put("d")
    assert names(slow.take()) == ["b", "*", "c", "d"]
    lab.put("e")
    lab.flusher.turn()
    assert slow.writes[-1] is quick.writes[-1], "it shares again"


def test_queues_of_all_watches_are_bounded_and_the_longest_end_first() -> None:
    lab = Lab(backlog=2_000)
    readers = [Wire(lab.open(), jammed=True) for _ in range(50)]
    lab.put("first")
    lab.flusher.settle()
    lab.put("a", "b")
    assert lab.backlog.size < 300, "what queues share counts once"
    alone = Wire(lab.open("metadata.name=z", version=13), jammed=True)
    lab.put("z")
    lab.flusher.settle()
    lab.put("z")
    assert not lab.meter.slow_ones
    lab.put(*map(str, range(20)))
    assert (lab.meter.slow_ones, alone.dropped, {wire.dropped for wire in readers}) == (50, False, {True})
    alone.relieve()
    assert names(alone.take()) == ["z", "z"]
    assert lab.backlog.size == 0


def test_the_end_comes_after_what_was_queued_and_its_bookmark() -> None:
    lab = Lab()
    open_one, slow, plain = Wire(lab.open()), Wire(lab.open(), jammed=True), Wire(lab.open(bookmarks=False))
    lab.put("a")
    lab.flusher.settle()
    lab.put("b")
    lab.replica.on_mark(50)
    lab.hub.close()
    assert names(open_one.take()) == ["a", "b", "*"]
    assert names(plain.take()) == ["a", "b"]
    assert (open_one.ended, slow.ended) == (False, None), "not reusable; not yet"
    assert lab.meter.bookmarks == [True, False] or lab.meter.bookmarks == [False, True]
    assert not lab.hub.empty.is_set()
    slow.relieve()
    assert names(slow.take()) == ["a", "b", "*"]
    assert slow.ended is False
    assert lab.hub.empty.is_set()


def test_many_watches_are_written_to_in_several_turns() -> None:
    lab = Lab()
    wires = [Wire(lab.open()) for _ in range(2 * TURN + 1)]
    lab.put("a")
    for written in (TURN, 2 * TURN, 2 * TURN + 1):
        lab.flusher.turn()
        assert sum(len(wire.writes) for wire in wires) == written
        lab.put("b")
    lab.flusher.turn()
    assert sum(len(wire.writes) for wire in wires) == 3 * TURN + 1, "events of several turns leave in one write"
    late = next(wire for wire in wires if len(wire.writes) == 1)
    late.watcher.finish()
    assert names(late.take()) == ["a", "b", "b", "b"]


async def test_turn_of_the_loop_ends_though_more_is_due() -> None:
    flushed: list[int] = []
    clock = Mock(monotonic=lambda: TURN_S * len(flushed))

    class Slow:
        def flush(self) -> None:
            flushed.append(0)

    flusher = Flusher()
    for _ in range(3):
        flusher.schedule(Slow())
    with patch("actors.apiserver.watch.timers.time", clock):
        for turn in range(1, 4):
            await asyncio.sleep(0)
            assert len(flushed) == turn
        await asyncio.sleep(0)
    assert len(flushed) == 3


async def test_long_turn_leaves_as_much_time_to_the_loop_and_one_that_fails_stops_no_other() -> None:
    flushed: list[float] = []
    flusher, enough = Flusher(), asyncio.Event()

    class Large:
        def flush(self) -> None:
            flusher.schedule(self)
            time.sleep(2 * LONG_TURN_S)
            flushed.append(time.monotonic())
            if len(flushed) == 3:
                enough.set()
            raise RecursionError

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    flusher.schedule(Large())
    async with asyncio.timeout(30):
        await enough.wait()
    assert flushed[2] - flushed[0] >= 4 * 2 * LONG_TURN_S


def test_a_watch_that_is_over_leaves_a_connection_for_the_next_request() -> None:
    lab = Lab()
    wire = Wire(lab.open())
    lab.put("a")
    wire.watcher.finish()
    assert names(wire.take()) == ["a"]
    assert wire.ended is True
    assert lab.hub.empty.is_set()


def test_a_lost_connection_costs_nobody_anything() -> None:
    lab = Lab()
    gone, other = Wire(lab.open()), Wire(lab.open())
    lab.put("a")
    gone.watcher.lost()
    lab.put("b")
    assert names(other.take()) == ["a", "b"]
    assert gone.take() == b""
    other.watcher.lost()
    assert lab.hub.empty.is_set()


def test_a_reader_far_behind_is_ended_alone() -> None:
    lab = Lab()
    slow, quick = Wire(lab.open(), jammed=True), Wire(lab.open())
    for number in range(QUEUE_LIMIT + 2):
        lab.put(f"p{number}")
        lab.flusher.settle()
    assert (slow.ended, quick.ended) == (False, None)
    assert slow.dropped
    assert lab.meter.slow_ones == 1
    assert len(names(quick.take())) == QUEUE_LIMIT + 2


def test_bookmarks_only_for_those_who_asked() -> None:
    lab = Lab()
    silent = Wire(lab.open(bookmarks=False))
    lab.replica.on_mark(40)
    lab.hub.bookmark(silent.watcher)
    assert silent.take() == b""


def test_a_watch_from_the_future_stands_apart_until_it_comes() -> None:
    lab = Lab()
    wire = Wire(lab.open(version=13))
    for name in "abcd":
        lab.put(name)
        lab.flusher.settle()
    assert names(wire.take()) == ["d"]
    assert wire.watcher.live


def test_without_chunks_a_watch_writes_for_itself() -> None:
    lab = Lab()
    old, new = Wire(lab.open(), chunked=False), Wire(lab.open())
    lab.put("a", "b")
    assert names(old.take()) == names(new.take()) == ["a", "b"]


steps = st.lists(
    st.tuples(st.sampled_from(("put", "put", "turn", "jam", "relieve", "bookmark", "mark", "lose")), st.integers(0, 3)),
    max_size=60,
)


@given(steps, st.integers(1, 4))
def test_every_event_once_in_order_and_no_bookmark_overtakes(told: list[tuple[str, int]], turn: int) -> None:
    """`turn`: watches that are written to in one turn."""
    with patch.object(channel, "TURN", turn):
        _play(told)


def _play(told: list[tuple[str, int]]) -> None:
    lab = Lab()
    wires = [Wire(lab.open()), Wire(lab.open()), Wire(lab.open(version=12)), Wire(lab.open(), chunked=False)]
    put: list[int] = []
    for verb, which in told:
        wire = wires[which]
        if verb == "put":
            put.append(lab.replica.mark + 1)
            lab.put(f"p{which}")
        elif verb == "mark":
            lab.replica.on_mark(lab.replica.mark + which)
        elif verb == "turn":
            lab.flusher.turn()
        elif verb == "bookmark":
            lab.hub.bookmark(wire.watcher)
        elif verb == "lose":
            wire.watcher.lost()
            wires[which] = Wire(lab.open(version=lab.replica.mark))
        else:
            wire.jam() if verb == "jam" else wire.relieve()
    for wire in wires:
        wire.relieve()
    for wire in wires:
        _check(wire, put)


def _check(wire: Wire, put: list[int]) -> None:
    seen, told = [], wire.watcher.start
    for event in events(wire.take()):
        rv = int(event["object"]["metadata"]["resourceVersion"])
        assert rv > told, "order, and nothing a bookmark has covered"
        told = rv
        if event["type"] != "BOOKMARK":
            seen.append(rv)
    assert seen == [rv for rv in put if rv > wire.watcher.start]


def test_chunk_says_its_size_in_hex() -> None:
    assert chunk([b"x" * 10, b"y" * 7]) == b"11\r\n" + b"x" * 10 + b"y" * 7 + b"\r\n"


async def test_alarms_ring_once_in_time_and_not_when_cancelled() -> None:
    rung: list[str] = []

    class AlarmTarget:
        def __init__(self, name: str) -> None:
            self.name = name

        def alarm(self) -> None:
            rung.append(self.name)
            if self.name == "late":
                over.set()

    over = asyncio.Event()

    alarms, now = Alarms(), asyncio.get_running_loop().time()
    late, never, soon = AlarmTarget("late"), AlarmTarget("never"), AlarmTarget("soon")
    alarms.set(late, now + 0.3)
    slot = alarms.set(never, now + 0.01)
    alarms.set(soon, now + 0.02)
    alarms.cancel(never, slot)
    async with asyncio.timeout(60):
        await over.wait()
    assert asyncio.get_running_loop().time() - now >= 0.3
    assert rung == ["soon", "late"]


def test_a_change_visits_only_channels_it_may_concern() -> None:
    index: Index[str] = Index(PODS.fields[NODE])
    looks = {"all": ("", ""), "ns": ("ns", ""), "other": ("other", ""), "named": ("ns", "metadata.name=a")}
    looks |= {"n1": ("", "spec.nodeName=n1"), "n2": ("", "spec.nodeName=n2"), "n3": ("", "spec.nodeName=n3")}
    looks |= {"none": ("", "spec.nodeName="), "not": ("", "spec.nodeName!=n1")}
    places = {who: index.place_of(namespace, selection(PODS, "", fields)) for who, (namespace, fields) in looks.items()}
    for who, place in places.items():
        index.add(place, who)
    moved = Change("ns/a", 5, Stored("ns/a", 4, pod("a", "n1")), Stored("ns/a", 5, pod("a", "n2")))
    assert sorted(index.concerned(moved)) == ["all", "n1", "n2", "named", "not", "ns"]
    homeless = Change("ns/b", 6, None, Stored("ns/b", 6, pod("b")))
    assert sorted(index.concerned(homeless)) == ["all", "none", "not", "ns"]
    for who, place in places.items():
        index.remove(place, who)
    assert not list(index.concerned(moved))


def test_a_long_beginning_takes_turns_and_what_comes_meanwhile_follows_it() -> None:
    lab = Lab()
    lab.put(*(f"p{number:04}" for number in range(600)))
    wire = Wire(lab.open(version=0))
    assert 0 < len(names(unchunked(wire))) < 600
    lab.put("z")
    told = names(wire.take())
    assert told == [*(f"p{number:04}" for number in range(600)), "*", "z"]


def test_events_that_take_long_to_encode_take_a_turn_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    lab.put("a", "b", "c")
    monkeypatch.setattr(watcher, "TURN_SECONDS", -1.0)
    wire = Wire(lab.open(version=0))
    assert names(unchunked(wire)) == ["a"]
    assert names(wire.take()) == ["a", "b", "c", "*"]


def test_clients_that_read_again_all_at_once_share_turns_of_the_loop() -> None:
    """Each goes on with events to encode, for as long as the whole loop would wait for thousands of them."""
    lab = Lab()
    lab.put(*(f"p{number:04}" for number in range(600)))
    wires = [Wire(lab.open(version=0), jammed=True) for _ in range(3)]
    for wire in wires:
        wire.relieve()
    assert [len(wire.writes) for wire in wires] == [1, 1, 1]
    lab.flusher.turn()
    assert [len(wire.writes) for wire in wires] == [2, 2, 2]


def test_watches_that_begin_as_tables_encode_in_their_turn() -> None:
    lab = Lab()
    lab.put("a")
    scope = Scope("", selection(PODS, "", ""), Form(view="Table"))
    wires = [Wire(open_watch(lab.hub, scope, ListOptions())) for _ in range(3)]
    assert [len(wire.writes) for wire in wires] == [0, 0, 0]
    lab.flusher.turn()
    assert [len(wire.writes) for wire in wires] == [1, 1, 1]


def test_initial_event_that_cannot_be_encoded_ends_its_watch_alone_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()
    lab.put("a", "b", "c")

    def broken(*args: Any, **more: Any) -> bytes:
        if args[2].name == "b":
            raise RecursionError
        return channel.event_bytes(*args, **more)

    monkeypatch.setattr(begin, "event_bytes", broken)
    monkeypatch.setattr(watcher, "TURN_SECONDS", -1.0)
    failed, other = Wire(lab.open(version=0)), Wire(lab.open(version=13))
    lab.put("d")
    assert [event["type"] for event in events(failed.take())][:2] == ["ADDED", "ERROR"]
    assert failed.ended is False
    assert names(other.take()) == ["d"]


def unchunked(wire: Wire) -> bytes:
    return b"".join(map(unchunk, wire.writes))
