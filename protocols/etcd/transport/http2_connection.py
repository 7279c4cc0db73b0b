"""Connections to etcd members over HTTP/2, for ConnectionChannel."""

import ssl
from collections.abc import Callable
from functools import partial

from protocols.etcd.transport.connection_channel import SERVICE, CallConnection, ConnectionChannel, OnMessage
from protocols.etcd.transport.frames import ERROR, OK, WATCH
from protocols.http2.connection import Address, Http2Connection, dial
from protocols.http2.hpack import Header

LEADER: tuple[Header, ...] = ((b"hasleader", b"true"),)
"""Makes a member without a leader end the stream instead of keeping it silent."""


_OVER = b"UNAVAILABLE\0the store ended the call"


class _EtcdConnection:
    def __init__(self, on_message: OnMessage, lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._lost = lost
        self.inner: Http2Connection

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

    def on_lost(self, connection: Http2Connection) -> None:
        self._lost()

    def on_begun(self, number: int) -> None:
        """Ignore headers: a watch of etcd begins with a message."""

    def on_message(self, number: int, message: bytes) -> None:
        self._on_message(number, OK, message)

    def on_end(self, number: int, code: str, text: str) -> None:
        """Report the end; a clean one is still an error for a pending call."""
        error = f"{code}\0{text}".encode() if code != "OK" else _OVER
        self._on_message(number, ERROR, error)


async def open_connection(address: Address, on_message: OnMessage, lost: Callable[[], None]) -> CallConnection:
    """Raises OSError."""
    connection = _EtcdConnection(on_message, lost)
    connection.inner = await dial(address, connection)
    return connection


def http2_channel(endpoint: str, tls: Callable[[], ssl.SSLContext] | None, largest: int) -> ConnectionChannel:
    """Return a channel over HTTP/2; `endpoint` is `host:port` or `unix:PATH`."""
    if endpoint.startswith("unix:"):
        address = Address(path=endpoint.removeprefix("unix:"), largest=largest)
    else:
        host, _, port = endpoint.rpartition(":")
        address = Address(host.strip("[]"), int(port), tls=tls, largest=largest, greets=True, asks=True)
    return ConnectionChannel(endpoint, partial(open_connection, address))
