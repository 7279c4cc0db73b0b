"""The connection of an open watch after it was taken over from the HTTP server.

It is an asyncio protocol with one alarm. Nothing of the request is retained and no task waits: an idle watch costs its
socket, its TLS state and these few fields.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate

import msgspec

from actors.apiserver.api.encoding.negotiate import Headers, written
from actors.apiserver.watch.hub import Hub
from actors.apiserver.watch.watcher import Watcher
from protocols.process.tls import is_trusted

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_BEFORE_END = 2.0
CONGESTED_BYTES = 64 * 1024
"""Unsent bytes above which a watch no longer shares its channel's writes."""
GRACE_SECONDS = 1.0
"""Drain timeout: a client that was too slow may read for this long before its connection is aborted."""
UNREAD_SECONDS = 30.0
"""Time after the end of a watch in which its client must read the rest, or lose its connection."""
LAST_CHUNK = b"0\r\n\r\n"


class ConnectionOptions(msgspec.Struct, frozen=True):
    """One watch's hub, duration and framing, and the owner of its connection afterwards."""

    hub: Hub
    seconds: float
    """Duration of the watch, at most that of its client's credential."""
    chunked: bool
    """False for HTTP/1.0: the body ends with the connection."""
    keep_alive: bool
    ended: Callable[[], None]
    """Called once, when the watch ends."""
    reuse: Callable[[asyncio.Transport], None]
    """Return the connection to the HTTP server for its next request."""


class WatchConnection(asyncio.Protocol):
    """The open connection of one watch; what it wrote ends as one chunk, so that HTTP can go on."""

    __slots__ = ("_ends_at", "_hub", "_last_mark", "_options", "_slot", "_transport", "_watcher", "chunked")

    def __init__(self, options: ConnectionOptions, transport: asyncio.Transport, watcher: Watcher) -> None:
        self.chunked = options.chunked
        self._hub = options.hub
        self._options: ConnectionOptions | None = options
        self._transport = transport
        self._watcher = watcher
        now = asyncio.get_running_loop().time()
        self._ends_at = now + options.seconds
        self._last_mark = self._ends_at - min(LAST_BOOKMARK_BEFORE_END, options.seconds / 4)
        self._slot = self._hub.alarms.set(self, self._next_alarm(now))

    def begin(self, headers: Headers, initial: Iterator[bytes], congested: bool) -> None:
        """Take over the transport and start to write; without `headers`, which a websocket has sent already."""
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=CONGESTED_BYTES)
        self._watcher.congested = congested
        self._watcher.begin(self, initial, _head(headers, self.chunked, int(time.time())) if headers else b"")

    def alarm(self) -> None:
        """Send a bookmark, also at the end of the watch: the one before it may be old by now.

        As upstream, one comes shortly before the end though nothing has changed.
        """
        now = asyncio.get_running_loop().time()
        self._hub.bookmark(self._watcher, again=self._last_mark <= now < self._ends_at)
        if now >= self._ends_at:
            self._watcher.finish()
            if self._options is not None:  # congested
                asyncio.get_running_loop().call_later(UNREAD_SECONDS, self._give_up)
        elif self._options is not None:  # its bookmark, or that of another watch, may have ended it
            self._slot = self._hub.alarms.set(self, self._next_alarm(now))

    def _give_up(self) -> None:
        if self._options is not None:
            self._transport.abort()

    @property
    def write(self) -> Callable[[bytes], None]:
        return self._transport.write

    @property
    def trusted(self) -> bool:
        """True while the client's certificate is valid under the current CAs."""
        return is_trusted(self._transport, time.time())

    def end(self, reusable: bool) -> None:
        options = self._end()
        if self.chunked:
            self._transport.write(LAST_CHUNK)
        free = not self._transport.is_closing() and not self._watcher.congested
        if options is not None and reusable and options.keep_alive and free:
            options.reuse(self._transport)
            return
        self._transport.close()

    def drop_soon(self) -> None:
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._transport.abort)

    def pause_writing(self) -> None:
        self._watcher.pause()

    def resume_writing(self) -> None:
        self._watcher.resume()

    def data_received(self, data: bytes) -> None:
        """Discard data that a client sends during a watch. The connection is not reused after that."""
        self._watcher.reusable = False

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        self._watcher.lost()

    def _end(self) -> ConnectionOptions | None:
        """Cancel the alarm. Return the options at the first call, None afterwards."""
        options, self._options = self._options, None
        if options is not None:
            self._hub.alarms.cancel(self, self._slot)
            options.ended()
        return options

    def _next_alarm(self, now: float) -> float:
        """Return the time of the next bookmark, each minute and shortly before the end, or of the end."""
        if not self._watcher.bookmarks:
            return self._ends_at
        return min(now + BOOKMARK_SECONDS, self._last_mark if now < self._last_mark else self._ends_at)


def _head(headers: Headers, chunked: bool, second: int) -> bytes:
    framing = "Transfer-Encoding: chunked" if chunked else "Connection: close"
    date = formatdate(second, usegmt=True)
    return f"HTTP/1.1 200 OK\r\n{written(headers)}Date: {date}\r\n{framing}\r\n\r\n".encode()
