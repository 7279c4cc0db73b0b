"""A connection to an etcd member over HTTP/2, as LineChannel wants one."""

import ssl
from collections.abc import Callable
from functools import partial

from protocols.etcd.frames import ERROR, OK, WATCH
from protocols.etcd.line import Heard, Line
from protocols.etcd.line_channel import SERVICE, LineChannel
from protocols.http2.hpack import Header
from protocols.http2.line import Http2Line, Place, dial

LEADER: tuple[Header, ...] = ((b"hasleader", b"true"),)
"""Makes a member without a leader end the stream instead of keeping it silent."""


_OVER = b"UNAVAILABLE\0the store ended the call"


class EtcdLine:
    def __init__(self, heard: Heard, lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self.inner: Http2Line

    @property
    def draining(self) -> bool:
        return self.inner.draining

    def send(self, number: int, method: str, body: bytes, last: bool) -> None:
        self.inner.send(number, SERVICE + method, body, last, LEADER if method == WATCH else ())

    def cancel(self, number: int) -> None:
        self.inner.cancel(number)

    def pause(self, pause: bool) -> None:
        self.inner.pause(pause)

    def close(self) -> None:
        self.inner.close()

    def on_lost(self, line: Http2Line) -> None:
        self._lost()

    def on_begun(self, number: int) -> None:
        """Messages tell as much."""

    def on_message(self, number: int, message: bytes) -> None:
        self._heard(number, OK, message)

    def on_end(self, number: int, code: str, text: str) -> None:
        """An end without a fault is one to who still waits for a message, too."""
        told = f"{code}\0{text}".encode() if code != "OK" else _OVER
        self._heard(number, ERROR, told)


async def open_line(place: Place, heard: Heard, lost: Callable[[], None]) -> Line:
    """Raises OSError."""
    line = EtcdLine(heard, lost)
    line.inner = await dial(place, line)
    return line


def http2_channel(endpoint: str, tls: Callable[[], ssl.SSLContext] | None, largest: int) -> LineChannel:
    """`endpoint` is `host:port` or `unix:PATH`."""
    if endpoint.startswith("unix:"):
        place = Place(path=endpoint.removeprefix("unix:"), largest=largest)
    else:
        host, _, port = endpoint.rpartition(":")
        place = Place(host.strip("[]"), int(port), tls=tls, largest=largest, greets=True, asks=True)
    return LineChannel(endpoint, partial(open_line, place))
