"""One open watch: its queue, the order of its events, its end. The socket belongs to a Wire."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from actors.apiserver.api.encoding.negotiate import PLAIN
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.backlog import Backlog
from actors.apiserver.watch.scope import Scope
from actors.apiserver.watch.timers import Flusher, chunk


class Meter:
    """Receive what metrics count of a hub's watches. This base class ignores everything."""

    def sent(self, watches: int, size: int) -> None:
        """Count an event of `size` bytes that was queued for `watches` watches."""

    def replayed(self, events: int, size: int) -> None:
        """Count events written at the beginning of a watch."""

    def slow(self) -> None:
        """Count a watch that was ended because its client does not keep up."""

    def expired(self) -> None:
        """Count a watch that was rejected because its revision is older than the window."""

    def last_bookmark(self, sent: bool) -> None:
        """Count a last bookmark of a leaving process. `sent` is False if a congested connection held it back."""


QUEUE_LIMIT = 1000
"""Queued events after which the watch of a slow client is ended."""
QUEUE_BYTES = 16 * 1024 * 1024
BATCH_BYTES = 128 * 1024
"""Initial events are joined into writes of about this size, one in each turn of the event loop."""
TURN_SECONDS = 0.002
"""Time in which initial events are encoded for one such write: as tables or protobuf each costs a tenth of a
millisecond."""
PAUSE = b""
"""Among initial events: the event loop may go on with other work here."""


class Wire(Protocol):
    """The connection of a watch."""

    chunked: bool

    @property
    def write(self) -> Callable[[bytes], None]:
        """Write without waiting. A connection that must buffer calls `Watcher.pause`."""

    @property
    def trusted(self) -> bool:
        """False once the client's certificate is no longer valid."""

    def end(self, reusable: bool) -> None:
        """End the body cleanly. A `reusable` connection may serve another request."""

    def drop_soon(self) -> None:
        """Abort the connection soon after `end`, even if the client has not read everything."""


class Shared(Protocol):
    """The channel, as its watches see it."""

    scope: Scope
    flusher: Flusher
    backlog: Backlog
    meter: Meter
    live: "dict[Watcher, Callable[[bytes], None]]"
    lagging: "set[Watcher]"
    position: int

    def newest(self) -> int:
        """Return the revision above which all coming events are."""

    def catch_up(self, watcher: "Watcher") -> None:
        """Write all that was offered to a live watch now."""

    def event_for(self, change: Change, first: bool) -> bytes | None:
        """Encode a past change for a watch that resumes."""

    def bookmark(self, rv: int) -> bytes:
        """Return an encoded bookmark."""

    def attach(self, watcher: "Watcher", write: Callable[[bytes], None]) -> None:
        """Make a watch live that has caught up with all events offered so far."""

    def detach(self, watcher: "Watcher") -> None:
        """Let a live watch go on with a queue of its own."""

    def leave(self, watcher: "Watcher") -> None:
        """Remove a watch that has ended."""


class Watcher:
    """The state of one open watch.

    Invariant: events leave in the order of their revisions, and all events that a bookmark covers leave before it.

    A live watch shares its channel's writes and has no queue. A lagging one has a queue. The bookmark of a live watch
    is written at once, after the events that it covers.
    """

    __slots__ = (
        "_initial", "_queue", "_scheduled", "_wire", "bookmarks", "channel", "congested", "done",
        "nothing_sent", "position", "reusable", "size", "start",
    )  # fmt: skip

    def __init__(self, channel: Shared, start: int, bookmarks: bool) -> None:
        self.channel = channel
        self.start = start
        """Only events above this revision are sent."""
        self.position = start
        """Newest revision sent while it lagged, or by a bookmark."""
        self.bookmarks = bookmarks
        self.nothing_sent = True
        """No event has been sent yet: the first event of a table carries its columns."""
        self.congested = False
        self.done = False
        self.reusable = True
        self._wire: Wire | None = None
        self._initial: Iterator[bytes] | None = None
        self._queue: deque[bytes] | None = None
        self.size = 0
        """Bytes in the queue."""
        self._scheduled = False
        channel.lagging.add(self)

    @property
    def live(self) -> bool:
        return self in self.channel.live

    def begin(self, wire: Wire, initial: Iterator[bytes], head: bytes = b"") -> None:
        """Start to write: first `head` with the first batch of `initial`, then the rest of `initial`, then the queue.

        `initial` is encoded lazily, but its content is fixed. Forms other than JSON take so long to encode that even
        the first batch waits for its turn: many watches may begin at once.
        """
        self._wire, self._initial = wire, initial
        waits = self.congested or self.channel.scope.form != PLAIN
        events, more = ([], True) if waits else _batch(initial)
        first = head + self._framed(events)
        if first:
            wire.write(first)
        if not more:
            self._initial = None
            self.flush()
        elif self._initial is not None:  # the connection may have been lost
            self._schedule()

    def push(self, rv: int, data: bytes) -> bool:
        """Queue an event of a lagging watch. Return False if it is not sent; a full queue ends the watch."""
        if self.done or rv <= self.start:
            return False
        if self._queue is not None and (len(self._queue) >= QUEUE_LIMIT or self.size + len(data) > QUEUE_BYTES):
            self.give_up()
            return False
        self.nothing_sent = False
        self.position = rv
        self._enqueue(data)
        return True

    def bookmark(self, rv: int, *, again: bool = False) -> bool:
        """Send a bookmark: all events up to `rv` have been offered.

        Skip it if the client is there already, unless it is to be sent `again`.
        Return False if the bookmark must wait behind a congested connection.
        """
        live = self.live
        newest = max(self.position, self.channel.position) if live else self.position
        if self.done or not self.bookmarks or rv < newest or (rv == newest and not again):
            return True
        if live:
            self.channel.catch_up(self)
        self.position = rv
        if self.live:  # it may have met congestion
            self._write(self.channel.bookmark(rv))
        else:
            self._enqueue(self.channel.bookmark(rv))
        return not self.congested

    def finish(self, reusable: bool = True) -> None:
        """Accept no more events, and end the body once the queue is written."""
        if self.done:
            return
        if self.live:
            self.channel.catch_up(self)
        self.done, self.reusable = True, reusable
        if self.live:
            self._end()
        else:
            self.flush()

    def end_untrusted(self) -> None:
        """End the watch if its client's certificate is no longer trusted. A client with a new one can resume."""
        if self._wire is not None and not self._wire.trusted:
            self.finish(reusable=False)

    def fail(self, error: bytes) -> None:
        """Send an ERROR event after everything queued, and end the watch."""
        if self.done:
            return
        if self.live:
            self.channel.catch_up(self)
        if self.live:  # it may have met congestion
            self._write(error)
        else:
            self._enqueue(error)
        self.finish()

    def pause(self) -> None:
        """Queue events from now on: the connection is congested."""
        self.congested = True
        if self.live:
            self.channel.detach(self)

    def resume(self) -> None:
        """Go on in a turn that all share: thousands of connections may resume at once, each with events to encode."""
        self.congested = False
        self._schedule()

    def lost(self) -> None:
        """Drop the queue: the connection is gone."""
        self.done = True
        self._forget()

    def flush(self) -> None:
        """Write as much as the connection takes. With nothing left, become live."""
        self._scheduled = False
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
        """Write a batch of the initial events. Return True once all are written, which may take several turns."""
        events = self._initial
        if events is not None and not self.congested:
            batch, more = _batch(events)
            if batch:
                self._write(*batch)
            if self._initial is not None and not more:  # the connection may have been lost
                self._initial = None
            elif not self.congested:
                self._schedule()
        return self._initial is None and not self.congested

    def _write_queue(self) -> None:
        if self._queue and not self.congested:
            self._write(*self._emptied())

    def _emptied(self) -> Iterable[bytes]:
        """Empty the queue, and return what it held."""
        queue, self._queue, self.size = self._queue or (), None, 0
        self.channel.backlog.drop(self, queue)
        return queue

    def _write(self, *events: bytes) -> None:
        if self._wire is not None:
            self._wire.write(self._framed(list(events)))

    def _framed(self, events: list[bytes]) -> bytes:
        chunked = self._wire is not None and self._wire.chunked
        return chunk(events) if chunked and events else b"".join(events)

    def _may_share(self) -> bool:
        """Return True if the shared writes fit: chunked, without columns, and newer than `start`."""
        channel, wire = self.channel, self._wire
        columns = self.nothing_sent and channel.scope.form.view == "Table"
        return wire is not None and wire.chunked and not columns and self.start <= channel.newest()

    def _enqueue(self, data: bytes) -> None:
        if self._queue is None:
            self._queue = deque()
        self._queue.append(data)
        self.size += len(data)
        self.channel.backlog.add(self, data)
        if not self.congested and self._initial is None:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._wire is not None:
            self._scheduled = True
            self.channel.flusher.schedule(self)

    def give_up(self) -> None:
        """End the watch of a client that is too slow. It loses the queue; no other watch waits for it."""
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
        self._emptied()
        self._initial = self._wire = None
        self.channel.leave(self)


def _batch(events: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """Return events of about BATCH_BYTES or TURN_SECONDS, and True if there may be more."""
    batch: list[bytes] = []
    size, ends = 0, time.monotonic() + TURN_SECONDS
    for data in events:
        if data == PAUSE:
            return batch, True
        batch.append(data)
        size += len(data)
        if size >= BATCH_BYTES or time.monotonic() > ends:
            return batch, True
    return batch, False
