"""The owner's end of one stream: numbers events, keeps the newest, and answers where a follower must go from. Pure."""

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from protocols.bus.bodies import body_of
from protocols.bus.frames import EventFrame, SyncFrame, decode_event, encode, topic_of
from protocols.bus.ring import Ring
from protocols.bus.types import Event, Item, Op, StreamSource, Value

REPLAY_LIMIT = 65_536
"""Events a source may tell by mark; past it a snapshot is cheaper."""


class Answering(msgspec.Struct):
    """What a sync gets: items (a snapshot) or events, and the position they lead to."""

    epoch: int
    seq: int
    mark: int
    items: Iterable[Item] | None = None
    events: Iterable[EventFrame] = ()


class Stream:
    """Made by Bus.own. `publish` and `set_mark` are synchronous and never block; call them from the event loop."""

    def __init__(self, name: str, source: StreamSource, ring: int, send: Callable[[bytes], object]) -> None:
        self.name = name
        self.topic = topic_of(name)
        self.epoch = 0
        self.seq = 0
        self.mark = 0
        self._source = source
        self._ring = Ring(ring)
        self._remember = self._ring.append
        self._send = send

    def publish(self, op: Op, key: str, value: Value, mark: int = 0) -> None:
        """Tell followers. `mark` is the durable position this event brings the stream to; 0 leaves it where it is."""
        seq = self.seq = self.seq + 1
        if mark:
            self.mark = mark
        body = value if isinstance(value, bytes) else encode(value)
        data = self.topic + encode(Event(op, key, body, seq, mark, self.epoch))
        self._remember(data)
        self._send(data)

    def set_mark(self, mark: int) -> None:
        """The durable position moved with no event; followers hear of it with the next tick."""
        self.mark = mark

    def answer(self, sync: SyncFrame) -> Answering:
        """The shortest way from a follower's position to ours: nothing, the ring, the source by mark, a snapshot."""
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
        """A mark ahead of ours is of a history we lost: only a snapshot tells the truth then."""
        if mark <= 0 or 0 < self.mark < mark:
            return None
        events = self._source.since(mark)
        if events is None:
            return None
        told = list(islice(events, REPLAY_LIMIT + 1))
        return [self._told(event) for event in told] if len(told) <= REPLAY_LIMIT else None

    def _told(self, event: Event[Value]) -> EventFrame:
        body = b"" if event.value is None else body_of(event.value)
        return Event(event.op, event.key, body, 0, event.mark, self.epoch)
