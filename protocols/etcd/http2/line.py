"""A connection to an etcd member over HTTP/2: the socket and the clock around a Session."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

from protocols.etcd.frames import ERROR, OK
from protocols.etcd.http2.errors import BadHttp2
from protocols.etcd.http2.hpack import Header
from protocols.etcd.http2.session import Session
from protocols.etcd.line import LOST, Heard, Line
from protocols.etcd.line_channel import SERVICE, LineChannel

QUIET_S = 6.0
"""Silence, with calls under way, after which we ask whether the other side lives. etcd ends connections that ask more
often than each 5 s."""
PATIENCE_S = 4.0
"""For the answer."""
CONNECT_S = 3.0
WATCH = "Watch/Watch"
LEADER: Header = (b"hasleader", b"true")
"""Makes a member without a leader end the stream instead of keeping it silent."""


class Http2Line(asyncio.Protocol):
    def __init__(self, authority: str, largest: int, heard: Heard, lost: Callable[[], None]) -> None:
        self._heard, self._lost = heard, lost
        self._authority = authority
        self._scheme = b"http"
        self._session = Session(lambda number, body: heard(number, OK, body), self._ended, largest)
        self._calls: dict[str, tuple[Header, ...]] = {}
        self._begun: set[int] = set()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._heard_at = 0.0
        self._asked = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def draining(self) -> bool:
        return self._session.draining

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a socket's is one for both directions
        self._scheme = b"https" if transport.get_extra_info("ssl_object") else b"http"
        self._heard_at = self._loop.time()
        self._flush()

    def send(self, number: int, method: str, body: bytes, last: bool) -> None:
        if number not in self._begun:
            self._begun.add(number)
            self._session.call(number, self._headers(method))
        self._session.send(number, body, last)
        self._flush()
        if self._alarm is None:
            self._heard_at = self._loop.time()
            self._alarm = self._loop.call_later(QUIET_S, self._beat)

    def cancel(self, number: int) -> None:
        self._begun.discard(number)
        self._session.cancel(number)
        self._flush()

    def pause(self, pause: bool) -> None:
        """While we do not read, silence means nothing."""
        transport = self._transport
        if transport is not None and not transport.is_closing() and transport.is_reading() == pause:
            transport.pause_reading() if pause else transport.resume_reading()
            self._heard_at = self._loop.time()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard_at, self._asked = self._loop.time(), False
        try:
            self._session.feed(data)
        except BadHttp2:
            self.close()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._lost()
        self._session.lost(LOST)

    def _ended(self, number: int, code: str, text: str) -> None:
        """An end without a fault is one to who still waits for a message, too."""
        self._begun.discard(number)
        if code == "OK":
            code, text = "UNAVAILABLE", "the store ended the call"
        self._heard(number, ERROR, f"{code}\0{text}".encode())

    def _flush(self) -> None:
        data = self._session.take()
        if self._transport is None:
            return
        if data:
            self._transport.write(data)
        if self._session.draining and not self._session.busy:
            self._transport.close()

    def _headers(self, method: str) -> tuple[Header, ...]:
        found = self._calls.get(method)
        if found is None:
            found = self._calls[method] = (
                (b":method", b"POST"),
                (b":scheme", self._scheme),
                (b":path", f"{SERVICE}{method}".encode()),
                (b":authority", self._authority.encode()),
                (b"te", b"trailers"),
                (b"content-type", b"application/grpc"),
                *((LEADER,) if method == WATCH else ()),
            )
        return found

    def _beat(self) -> None:
        """Runs while calls are under way."""
        self._alarm = None
        transport, quiet = self._transport, self._loop.time() - self._heard_at
        if transport is None or not self._session.busy:
            return
        wait = QUIET_S - quiet
        if not transport.is_reading():
            wait = QUIET_S
        elif self._asked:
            self.close()
            return
        elif wait <= 0:
            self._asked, wait = True, PATIENCE_S
            self._session.ping()
            self._flush()
        self._alarm = self._loop.call_later(wait, self._beat)


class Address:
    """Where a member listens: host and port, or the path of a unix socket."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        host, _, port = endpoint.rpartition(":")
        self.name = endpoint
        self.path = endpoint.removeprefix("unix:") if endpoint.startswith("unix:") else ""
        self.host, self.port = host.strip("[]"), int(port) if not self.path else 0
        self.tls = tls


async def dial(address: Address, largest: int, heard: Heard, lost: Callable[[], None]) -> Line:
    """Raises OSError; a fault of TLS is one, too."""
    loop = asyncio.get_running_loop()
    authority = "localhost" if address.path else address.name
    made = partial(Http2Line, authority, largest, heard, lost)
    try:
        async with asyncio.timeout(CONNECT_S):
            if address.path:
                _, line = await loop.create_unix_connection(made, address.path)
            else:
                _, line = await loop.create_connection(made, address.host, address.port, ssl=address.tls)
    except TimeoutError:
        raise OSError(f"{address.name} does not answer") from None
    return line


def http2_channel(endpoint: str, tls: ssl.SSLContext | None, largest: int) -> LineChannel:
    return LineChannel(endpoint, partial(dial, Address(endpoint, tls), largest))
