"""Hold back equal messages of a stream from a follower, which sees each of them as a record of its own. Pure.

Drivers report unchanged health every few seconds, plugins unchanged lists. The first of equal messages is shown at
once; of the others one every REPEAT_S and the last one before something else, each with the count so far.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from protocols.messages.calls import CallRecord

REPEAT_S = 60.0
MOST_STREAMS = 256
"""Streams whose last record is retained; plugins choose their names."""


@dataclass
class _Stream:
    body: CallRecord
    """The last record without its number and times."""
    shown_at: float
    held: CallRecord | None = None
    """Newest record not shown yet."""

    def take(self, now: float) -> Iterator[CallRecord]:
        if self.held is not None:
            yield self.held
            self.held, self.shown_at = None, now


class RepeatFilter:
    """Callers pass the time in seconds. All methods yield the records to show now."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str, str], _Stream] = {}

    def add(self, record: CallRecord, now: float) -> Iterator[CallRecord]:
        key = (record.peer, record.socket, record.method)
        body = msgspec.structs.replace(record, number=0, began_ns=0, seconds=0.0, times=1)
        stream = self._streams.pop(key, None)
        if stream is not None and record.times > 1 and stream.body == body:
            self._streams[key] = stream
            stream.held = record
            return
        if stream is not None:
            yield from stream.take(now)
        yield record
        self._streams[key] = _Stream(body, now)
        if len(self._streams) > MOST_STREAMS:
            yield from self._streams.pop(next(iter(self._streams))).take(now)

    def due(self, now: float) -> Iterator[CallRecord]:
        for stream in self._streams.values():
            if now - stream.shown_at >= REPEAT_S:
                yield from stream.take(now)

    def rest(self, now: float) -> Iterator[CallRecord]:
        """Yield all that is held: the follower ends, or the device manager restarted."""
        for stream in self._streams.values():
            yield from stream.take(now)
        self._streams.clear()
