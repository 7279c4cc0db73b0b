"""The owner's end of streams. Pure.

A stream numbers its events, retains the newest ones and answers syncs of followers by the shortest way. `SyncDesk`
sends the answers: in chunks against credit, few long ones at once, a repeated question once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from protocols.bounded import BoundedMap
from protocols.bus.frames import (
    VERSION,
    BusyFrame,
    Chunk,
    EventFrame,
    MoreFrame,
    ReplayFrame,
    SnapshotFrame,
    SyncFrame,
    body_of,
    cost,
    decode_event,
    encode,
    topic_of,
)
from protocols.bus.types import Event, Item, Op, StreamSource, Value

OVERHEAD = 64
"""Bytes an event costs besides its own."""


class Ring:
    """Retains bytes, not structs: one object an event, and nothing else of a publish stays in memory."""

    def __init__(self, count: int, size: int = 16 << 20) -> None:
        self._events: deque[bytes] = deque(maxlen=count)
        self._size = size
        self._used = 0
        """Upper bound of the bytes held; events that left by count are subtracted only when the bound seems reached."""

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: bytes) -> None:
        self._events.append(event)
        self._used += len(event) + OVERHEAD
        if self._used > self._size:
            self._trim()

    def newest(self, count: int) -> list[bytes] | None:
        """Return the last `count` events, oldest first; None if some of them are gone."""
        if count > len(self._events):
            return None
        return [self._events[index] for index in range(-count, 0)]

    def _trim(self) -> None:
        """Drop events down to half of the bytes, so that this happens seldom."""
        events = self._events
        self._used = sum(map(len, events)) + OVERHEAD * len(events)
        if self._used > self._size:
            while events and self._used > self._size // 2:
                self._used -= len(events.popleft()) + OVERHEAD


REPLAY_LIMIT = 65_536
"""Most events a source may replay by mark; past it a snapshot is cheaper."""


class Answering(msgspec.Struct):
    """Answer to a sync: items (a snapshot) or events, and the position they lead to."""

    epoch: int
    seq: int
    mark: int
    items: Iterable[Item] | None = None
    events: Iterable[EventFrame] = ()


class Stream:
    """An owned stream, made by Bus.own.

    `publish` and `set_mark` are synchronous and never block; call them from the event loop.
    """

    def __init__(self, name: str, source: StreamSource, ring: int, send: Callable[[bytes], object]) -> None:
        self.name = name
        self.topic = topic_of(name)
        self.epoch = 0
        self.seq = 0
        self.mark = 0
        self._source = source
        self._ring = Ring(ring)
        self._send = send

    def publish(self, op: Op, key: str, value: Value, mark: int = 0) -> None:
        """Send an event to followers. `mark` is the durable position after it; 0 leaves the position unchanged."""
        seq = self.seq = self.seq + 1
        if mark:
            self.mark = mark
        body = value if isinstance(value, bytes) else encode(value)
        data = self.topic + encode(Event(op, key, body, seq, mark, self.epoch))
        self._ring.append(data)
        self._send(data)

    def set_mark(self, mark: int) -> None:
        """Set the durable position without an event; followers receive it with the next tick."""
        self.mark = mark

    def answer(self, sync: SyncFrame) -> Answering:
        """Return the shortest way from a follower's position to ours.

        It is nothing, events of the ring, events of the source by mark, or a snapshot.
        """
        answering = Answering(self.epoch, self.seq, self.mark)
        events = self._replay(sync)
        if events is None:
            answering.items = list(self._source.snapshot())
        else:
            answering.events = events
        return answering

    def _replay(self, sync: SyncFrame) -> list[EventFrame] | None:
        if sync.epoch == self.epoch and sync.seq <= self.seq:
            if sync.seq == self.seq:
                return []
            ringed = self._ring.newest(self.seq - sync.seq)
            if ringed is not None:
                return [decode_event(data[len(self.topic) :]) for data in ringed]
        return self._by_mark(sync.mark)

    def _by_mark(self, mark: int) -> list[EventFrame] | None:
        """Return the events after a mark; None (a snapshot is needed) for a mark of a history that we lost."""
        if mark <= 0 or 0 < self.mark < mark:
            return None
        events = self._source.since(mark)
        if events is None:
            return None
        replay = list(islice(events, REPLAY_LIMIT + 1))
        return [self._frame(event) for event in replay] if len(replay) <= REPLAY_LIMIT else None

    def _frame(self, event: Event[Value]) -> EventFrame:
        body = b"" if event.value is None else body_of(event.value)
        return Event(event.op, event.key, body, 0, event.mark, self.epoch)


T = TypeVar("T")
Pair = tuple[str, bytes]


class ChunkLimits(msgspec.Struct, frozen=True):
    """Size of one chunk of a sync's answer, in bytes of bodies and in events."""

    bytes: int = 256 << 10
    """A chunk ends before it passes this; a single larger body travels alone."""
    count: int = 2048


def item_chunks(items: Iterable[Item], limits: ChunkLimits) -> Iterator[tuple[bool, list[Pair]]]:
    """Yield a snapshot as (is last, pairs); an empty one is one empty chunk."""
    pairs = ((item.key, body_of(item.value)) for item in items)
    return _cut(pairs, limits, lambda pair: len(pair[0]) + len(pair[1]))


def event_chunks(events: Iterable[EventFrame], limits: ChunkLimits) -> Iterator[tuple[bool, list[EventFrame]]]:
    """Yield a replay as (is last, events)."""
    return _cut(events, limits, cost)


def _cut(things: Iterable[T], limits: ChunkLimits, cost: Callable[[T], int]) -> Iterator[tuple[bool, list[T]]]:
    chunk: list[T] = []
    size = 0
    for thing in things:
        size += cost(thing)
        if chunk and (size > limits.bytes or len(chunk) >= limits.count):
            yield False, chunk
            chunk, size = [], cost(thing)
        chunk.append(thing)
    yield True, chunk


Where = tuple[bytes, str]
"""The follower (ROUTER's name of its connection) and the stream of a sync."""


class DeskLimits(msgspec.Struct, frozen=True):
    """Bounds of answers to syncs: how many, how far ahead, how long."""

    sessions: int = 16
    """Answers of more than one chunk that are under way at once; others get BUSY."""
    window: int = 4
    """Chunks sent ahead of the follower's credit."""
    idle: float = 10.0
    """Seconds without credit after which an answer is given up."""
    repeat: float = 1.0
    """Seconds in which a repeated sync with the same id is ignored; a later one means that the answer was lost."""
    busy_ms: int = 50
    absent_ms: int = 250
    """Milliseconds until a follower asks again for a stream that is not owned (yet), unless its first tick comes."""
    recent: int = 512
    chunk: ChunkLimits = ChunkLimits()


class _Session(msgspec.Struct):
    id: int
    chunks: Iterator[Chunk]
    credit: int
    heard: float


class SyncDesk:
    """Answers to syncs that are under way, one for each follower and stream."""

    def __init__(self, limits: DeskLimits | None = None) -> None:
        self._limits = limits or DeskLimits()
        self._sessions: dict[Where, _Session] = {}
        self._answered = BoundedMap[Where, tuple[int, float]](self._limits.recent)

    @property
    def open(self) -> int:
        return len(self._sessions)

    def sync(self, peer: bytes, sync: SyncFrame, stream: Stream | None, now: float) -> list[Chunk | BusyFrame]:
        """Return the frames to send now; none for a repeated sync whose answer is under way or was just given."""
        where = (peer, sync.stream)
        if self._is_repeated(where, sync.id, now):
            return []
        if stream is None:
            return [BusyFrame(VERSION, sync.id, sync.stream, self._limits.absent_ms)]
        self._sessions.pop(where, None)
        if len(self._sessions) >= self._limits.sessions:
            return [BusyFrame(VERSION, sync.id, sync.stream, self._limits.busy_ms)]
        self._sessions[where] = _Session(
            sync.id, _frames(sync, stream.answer(sync), self._limits.chunk), self._limits.window, now
        )
        return self._advance(where)

    def more(self, peer: bytes, more: MoreFrame, now: float) -> list[Chunk | BusyFrame]:
        session = self._sessions.get((peer, more.stream))
        if session is None or session.id != more.id:
            return []
        session.credit += 1
        session.heard = now
        return self._advance((peer, more.stream))

    def unsent(self, peer: bytes, stream: str) -> None:
        """Forget an answer of which a frame could not be sent; the follower syncs again."""
        self._sessions.pop((peer, stream), None)
        self._answered.pop((peer, stream), None)

    def expire(self, now: float) -> None:
        for where in [w for w, s in self._sessions.items() if now - s.heard > self._limits.idle]:
            del self._sessions[where]

    def _is_repeated(self, where: Where, id: int, now: float) -> bool:
        session = self._sessions.get(where)
        known, at = (session.id, session.heard) if session else self._answered.get(where, (-1, 0.0))
        return known == id and now - at < self._limits.repeat

    def _advance(self, where: Where) -> list[Chunk | BusyFrame]:
        session = self._sessions[where]
        out: list[Chunk | BusyFrame] = []
        while session.credit > 0:
            chunk = next(session.chunks)
            session.credit -= 1
            out.append(chunk)
            if chunk.last:
                self._close(where)
                break
        return out

    def _close(self, where: Where) -> None:
        session = self._sessions.pop(where)
        self._answered[where] = (session.id, session.heard)


def _frames(sync: SyncFrame, answer: Answering, limits: ChunkLimits) -> Iterator[Chunk]:
    head = (VERSION, sync.id, sync.stream, answer.epoch, answer.seq, answer.mark)
    if answer.items is not None:
        for index, (last, items) in enumerate(item_chunks(answer.items, limits)):
            yield SnapshotFrame(*head, index, last, items)
        return
    for index, (last, events) in enumerate(event_chunks(answer.events, limits)):
        yield ReplayFrame(*head, index, last, events)
