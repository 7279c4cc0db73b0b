"""The owner's desk for syncs: one answer per follower and stream, sent in chunks against credit. Pure.

Protects the owner: few long answers at once, the same question answered once, a follower that went away forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from protocols.bus.chunks import ChunkLimits, event_chunks, item_chunks
from protocols.bus.frames import VERSION, BusyFrame, Chunk, MoreFrame, ReplayFrame, SnapshotFrame, SyncFrame
from protocols.bus.stream import Answering, Stream

Where = tuple[bytes, str]
"""Who asked (ROUTER's name of the connection), and for which stream."""


class DeskLimits(msgspec.Struct, frozen=True):
    sessions: int = 16
    """Answers of more than one chunk that are under way at once; others get BUSY."""
    window: int = 4
    """Chunks sent ahead of the follower's credit."""
    idle: float = 10.0
    """Seconds without credit after which an answer is given up."""
    repeat: float = 1.0
    """Seconds in which a question under the same id is taken for impatience, not for a lost answer."""
    busy_ms: int = 50
    absent_ms: int = 250
    """When to ask again for a stream that is not owned (yet); its first tick says sooner."""
    recent: int = 512
    chunk: ChunkLimits = ChunkLimits()


class _Session(msgspec.Struct):
    id: int
    chunks: Iterator[Chunk]
    credit: int
    heard: float


class SyncDesk:
    def __init__(self, limits: DeskLimits | None = None) -> None:
        self._limits = limits or DeskLimits()
        self._sessions: dict[Where, _Session] = {}
        self._answered: OrderedDict[Where, tuple[int, float]] = OrderedDict()

    @property
    def open(self) -> int:
        return len(self._sessions)

    def sync(self, peer: bytes, sync: SyncFrame, stream: Stream | None, now: float) -> list[Chunk | BusyFrame]:
        """Frames to send now. A repeated question whose answer is under way or was just given gets none."""
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
        """A frame could not be sent: forget the answer, the follower asks again."""
        self._sessions.pop((peer, stream), None)
        self._answered.pop((peer, stream), None)

    def expire(self, now: float) -> None:
        for where in [w for w, s in self._sessions.items() if now - s.heard > self._limits.idle]:
            del self._sessions[where]

    def _is_repeated(self, where: Where, id: int, now: float) -> bool:
        session = self._sessions.get(where)
        told, at = (session.id, session.heard) if session else self._answered.get(where, (-1, 0.0))
        return told == id and now - at < self._limits.repeat

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
        self._answered.move_to_end(where)
        while len(self._answered) > self._limits.recent:
            self._answered.popitem(last=False)


def _frames(sync: SyncFrame, answer: Answering, limits: ChunkLimits) -> Iterator[Chunk]:
    head = (VERSION, sync.id, sync.stream, answer.epoch, answer.seq, answer.mark)
    if answer.items is not None:
        for index, (last, items) in enumerate(item_chunks(answer.items, limits)):
            yield SnapshotFrame(*head, index, last, items)
        return
    for index, (last, events) in enumerate(event_chunks(answer.events, limits)):
        yield ReplayFrame(*head, index, last, events)
