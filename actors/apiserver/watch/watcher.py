"""One open watch: its queue, its order, its end. It owns no socket; a Wire does."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from actors.apiserver.replica.window import Change
from actors.apiserver.watch.scope import Scope
from actors.apiserver.watch.timers import Flusher, chunk


class Meter:
    def sent(self, watches: int, size: int) -> None:
        """An event of `size` bytes was queued for so many watches."""

    def replayed(self, events: int, size: int) -> None:
        """Events written at the beginning of a watch."""

    def slow(self) -> None:
        """A watch was ended because its client does not keep up."""

    def expired(self) -> None:
        """A watch was refused: its version is older than the window."""

    def last_bookmark(self, told: bool) -> None:
        """A leaving process had a bookmark for a watch; `told`: it was written, not left behind a reader that lags."""


QUEUE_LIMIT = 1000
"""Events a client may lag behind live ones before its watch is ended."""
QUEUE_BYTES = 16 * 1024 * 1024
BATCH_BYTES = 128 * 1024
"""Initial events are joined into writes of about this size, one a turn of the loop."""
PAUSE = b""
"""Among initial events: a turn of the loop may end here."""


class Wire(Protocol):
    """The connection of a watch."""

    chunked: bool

    @property
    def write(self) -> Callable[[bytes], None]:
        """Never waits. What the connection cannot take yet is kept by it, and it says so by `Watcher.pause`."""

    @property
    def trusted(self) -> bool:
        """False once the client's certificate proves nothing any more."""

    def end(self, reusable: bool) -> None:
        """End the body cleanly; `reusable`: the connection may serve another request."""

    def drop_soon(self) -> None:
        """After `end`: what is under way has a moment, then the connection goes, read or not."""


class Shared(Protocol):
    """What watches that ask the same have in common; the channel is it."""

    scope: Scope
    flusher: Flusher
    meter: Meter
    live: "dict[Watcher, Callable[[bytes], None]]"
    lagging: "set[Watcher]"
    position: int

    def newest(self) -> int:
        """Events to come are above this revision."""

    def flush(self) -> None:
        """Write what is pending to all that share."""

    def event_for(self, change: Change, first: bool) -> bytes | None:
        """What a resuming watch gets for a change of the past."""

    def bookmark(self, rv: int) -> bytes:
        """Encoded."""

    def attach(self, watcher: "Watcher", write: Callable[[bytes], None]) -> None:
        """The watch has caught up with everything offered so far."""

    def detach(self, watcher: "Watcher") -> None:
        """The watch goes on with a queue of its own."""

    def leave(self, watcher: "Watcher") -> None:
        """The watch is over."""


class Watcher:
    """Invariant: bytes go out in the order of their revisions, and a bookmark covers only what stands before it.

    Either it shares its channel's writes (`live`), with nothing queued, or it stands apart with a queue. A bookmark of
    a live watch is written at once, behind a flush of the channel.
    """

    __slots__ = (
        "_initial", "_queue", "_size", "_wanted", "_wire", "bookmarks", "channel", "congested", "done",
        "nothing_sent", "position", "reusable", "start",
    )  # fmt: skip

    def __init__(self, channel: Shared, start: int, bookmarks: bool) -> None:
        self.channel = channel
        self.start = start
        """Only events above this revision are sent."""
        self.position = start
        """Newest revision it was told while it stood apart, or by a bookmark."""
        self.bookmarks = bookmarks
        self.nothing_sent = True
        """Nothing has been sent: the first event of a table carries its columns."""
        self.congested = False
        self.done = False
        self.reusable = True
        self._wire: Wire | None = None
        self._initial: Iterator[bytes] | None = None
        self._queue: deque[bytes] | None = None
        self._size = 0
        self._wanted = False
        channel.lagging.add(self)

    @property
    def live(self) -> bool:
        return self in self.channel.live

    def begin(self, wire: Wire, initial: Iterator[bytes], head: bytes = b"") -> None:
        """`head`, and as much of `initial` as is written at once, leave in one write; the rest of it before anything
        queued. `initial` is made lazily, its content is fixed."""
        self._wire, self._initial = wire, initial
        events, more = ([], True) if self.congested else _batch(initial)
        first = head + self._framed(events)
        if first:
            wire.write(first)
        if not more:
            self._initial = None
            self.flush()
        elif self._initial is not None:  # the connection may have been lost
            self._want()

    def push(self, rv: int, data: bytes) -> bool:
        """Queue an event of a watch that stands apart; False when it is not for it. A full queue ends the watch."""
        if self.done or rv <= self.start:
            return False
        if self._queue is not None and (len(self._queue) >= QUEUE_LIMIT or self._size + len(data) > QUEUE_BYTES):
            self._give_up()
            return False
        self.nothing_sent = False
        self.position = rv
        self._add(data)
        return True

    def bookmark(self, rv: int) -> bool:
        """Every event up to `rv` has been offered. False when it must wait behind a congested connection; a bookmark
        that moves nothing is left out."""
        live = self.live
        newest = max(self.position, self.channel.position) if live else self.position
        if self.done or not self.bookmarks or rv <= newest:
            return True
        if live:
            self.channel.flush()
        self.position = rv
        if self.live:  # the flush may have met congestion
            self._write(self.channel.bookmark(rv))
        else:
            self._add(self.channel.bookmark(rv))
        return not self.congested

    def finish(self, reusable: bool = True) -> None:
        """No more events; the body ends once what is queued is written."""
        if self.done:
            return
        if self.live:
            self.channel.flush()
        self.done, self.reusable = True, reusable
        if self.live:
            self._end()
        else:
            self.flush()

    def end_untrusted(self) -> None:
        """End if the client is no longer trusted. It resumes, if it can still prove who it is."""
        if self._wire is not None and not self._wire.trusted:
            self.finish(reusable=False)

    def fail(self, error: bytes) -> None:
        """Send an ERROR event as the last one, behind all that is queued."""
        if self.done:
            return
        if self.live:
            self.channel.flush()
        if self.live:  # the flush may have met congestion
            self._write(error)
        else:
            self._add(error)
        self.finish()

    def pause(self) -> None:
        """The connection is congested: from now on events queue here."""
        self.congested = True
        if self.live:
            self.channel.detach(self)

    def resume(self) -> None:
        self.congested = False
        self.flush()

    def lost(self) -> None:
        """The connection is gone."""
        self.done = True
        self._forget()

    def flush(self) -> None:
        """Write what the connection takes; with nothing left, share the channel's writes."""
        self._wanted = False
        if self._wire is None or self.live:
            return
        if not self.congested and self._write_initial():
            self._write_queue()
            if self._queue or self.congested:
                return
            if self.done:
                self._end()
            elif self._may_share():
                self.channel.attach(self, self._wire.write)

    def _write_initial(self) -> bool:
        """True once all of it is written; a long one takes several turns of the loop."""
        events = self._initial
        if events is not None and not self.congested:
            batch, more = _batch(events)
            if batch:
                self._write(*batch)
            if self._initial is not None and not more:  # the connection may have been lost
                self._initial = None
            elif not self.congested:
                self._want()
        return self._initial is None and not self.congested

    def _write_queue(self) -> None:
        if self._queue and not self.congested:
            queue, self._queue, self._size = self._queue, None, 0
            self._write(*queue)

    def _write(self, *events: bytes) -> None:
        if self._wire is not None:
            self._wire.write(self._framed(list(events)))

    def _framed(self, events: list[bytes]) -> bytes:
        chunked = self._wire is not None and self._wire.chunked
        return chunk(events) if chunked and events else b"".join(events)

    def _may_share(self) -> bool:
        """What is shared has chunks, has no columns, and is newer than `start`."""
        channel, wire = self.channel, self._wire
        columns = self.nothing_sent and channel.scope.form.view == "Table"
        return wire is not None and wire.chunked and not columns and self.start <= channel.newest()

    def _add(self, data: bytes) -> None:
        if self._queue is None:
            self._queue = deque()
        self._queue.append(data)
        self._size += len(data)
        if not self.congested and self._initial is None:
            self._want()

    def _want(self) -> None:
        if not self._wanted and self._wire is not None:
            self._wanted = True
            self.channel.flusher.schedule(self)

    def _give_up(self) -> None:
        """Too slow: it loses what is queued, nobody else waits."""
        self.channel.meter.slow()
        self.done, self.reusable = True, False
        wire = self._wire
        self._end()
        if wire is not None:
            wire.drop_soon()

    def _end(self) -> None:
        wire = self._wire
        self._forget()
        if wire is not None:
            wire.end(self.reusable)

    def _forget(self) -> None:
        self._initial = self._queue = self._wire = None
        self.channel.leave(self)


def _batch(events: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """About BATCH_BYTES of them, and whether there may be more."""
    batch: list[bytes] = []
    size = 0
    for data in events:
        if data == PAUSE:
            return batch, True
        batch.append(data)
        size += len(data)
        if size >= BATCH_BYTES:
            return batch, True
    return batch, False
