"""Relay bytes between a client's connection and its private connection to the gRPC server.

Bytes pass as they come, but for requests of a client over its share (pacing.py); when one end cannot take more, the
other end is not read from.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from actors.frontdoor.serving.pacing import RequestGate

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of every HTTP/2 client (RFC 9113, section 3.4)."""


class RelayEnd(asyncio.Protocol):
    """One end of a relayed connection. `other` is None until the ends are joined."""

    def __init__(self, buffer_bytes: int, on_lost: Callable[[], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: RelayEnd | None = None
        self.half_closed = False
        self.gate: RequestGate | None = None
        """Counts requests and answers. The client's end has it once they are joined."""
        self._is_full = False
        """True while the transport takes no more bytes."""
        self._buffer_bytes = buffer_bytes
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self._buffer_bytes)

    def data_received(self, data: bytes) -> None:
        if self.gate:
            self.gate.answer(data)
        if self.other:
            self.other.write(data)

    def write(self, data: bytes) -> None:
        """Send bytes, if there is a connection."""
        if self.transport:
            self.transport.write(data)

    def eof_received(self) -> bool:
        # An end that has written its last byte may still read; close only when both have half-closed.
        self.half_closed = True
        if self.other is None or self.other.half_closed:
            return False
        if self.other.transport and self.other.transport.can_write_eof():
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        self._is_full = True
        if self.other:
            self.other.read(False)

    def resume_writing(self) -> None:
        self._is_full = False
        if self.other:
            self.other.read(not self.other.holds)

    @property
    def holds(self) -> bool:
        """True while bytes of this end are held back."""
        return False

    def read(self, more: bool) -> None:
        """Read on, if the other end takes it, or stop reading."""
        if self.transport is None or self.transport.is_closing():
            return
        if more and not (self.other and self.other._is_full):
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.gate:
            self.gate.close()
        self._on_lost()
        if self.other:
            self.other.close()

    def close(self) -> None:
        if self.transport:
            self.transport.close()

    def abort(self) -> None:
        if self.transport:
            self.transport.abort()


class ClientEndEvents(msgspec.Struct, frozen=True):
    """Called as a connection proceeds: gRPC accepted it, its preface came, it is lost."""

    on_accepted: Callable[[], None]
    on_preface: Callable[[], None]
    on_lost: Callable[[], None]


class ClientEnd(RelayEnd):
    """The client's end. Its bytes are held back until they prove to be HTTP/2."""

    def __init__(self, buffer_bytes: int, events: ClientEndEvents) -> None:
        super().__init__(buffer_bytes, events.on_lost)
        self._events = events
        self.received = bytearray()
        """Bytes that are held back."""
        self.preface_seen = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._events.on_accepted()

    def data_received(self, data: bytes) -> None:
        if self.gate:
            return self._pass_on(data)
        self.received += data
        if self.preface_seen:
            return None
        if not PREFACE.startswith(self.received[: len(PREFACE)]):
            return self.abort()
        if len(self.received) >= len(PREFACE):
            self.preface_seen = True
            if self.transport:
                self.transport.pause_reading()
            self._events.on_preface()
        return None

    def join(self, server: RelayEnd) -> None:
        """Pass on the bytes held back so far, and all later ones, to `server`, as its gate allows."""
        if self.transport is None or server.transport is None:
            return
        self.other = server
        self.gate = server.gate
        server.write(PREFACE)
        self.read(True)
        self._pass_on(bytes(self.received[len(PREFACE) :]))
        self.received.clear()

    @property
    def holds(self) -> bool:
        return self.gate is not None and self.gate.holds

    def _pass_on(self, data: bytes) -> None:
        if self.gate:
            self.gate.take(data)
        if self.holds:
            self.read(False)
