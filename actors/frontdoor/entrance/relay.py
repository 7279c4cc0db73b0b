"""The two halves of one connection: bytes go through as they come, and a half that cannot take more stops the other."""

import asyncio
from collections.abc import Callable
from typing import cast

from actors.frontdoor.entrance.types import PREFACE


class Half(asyncio.Protocol):
    """One side. `other` is None until the connection is through."""

    def __init__(self, held: int, on_lost: Callable[[], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Half | None = None
        self.ended = False
        self._held = held
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self._held)

    def data_received(self, data: bytes) -> None:
        if self.other and self.other.transport:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """A side may have said all it had to say and still listen; when both have, it is over."""
        self.ended = True
        if self.other is None or self.other.ended:
            return False
        if self.other.transport and self.other.transport.can_write_eof():
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if (source := self._source()) is not None:
            source.pause_reading()

    def resume_writing(self) -> None:
        if (source := self._source()) is not None:
            source.resume_reading()

    def _source(self) -> asyncio.Transport | None:
        """The other side, while it is open."""
        transport = self.other.transport if self.other else None
        return None if transport is None or transport.is_closing() else transport

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost()
        if self.other:
            self.other.close()

    def close(self) -> None:
        if self.transport:
            self.transport.close()

    def abort(self) -> None:
        if self.transport:
            self.transport.abort()


class Outer(Half):
    """The client's side. Nothing passes before its first bytes say that it speaks HTTP/2."""

    def __init__(self, held: int, on_lost: Callable[[], None], on_preface: Callable[["Outer"], None]) -> None:
        super().__init__(held, on_lost)
        self._on_preface = on_preface
        self.said = bytearray()
        self.spoke = False

    def data_received(self, data: bytes) -> None:
        if self.other:
            return super().data_received(data)
        self.said += data
        if self.spoke:
            return None
        if not PREFACE.startswith(self.said[: len(PREFACE)]):
            return self.abort()
        if len(self.said) >= len(PREFACE):
            self.spoke = True
            if self.transport:
                self.transport.pause_reading()
            self._on_preface(self)
        return None

    def through(self, inner: Half) -> None:
        """From now on every byte goes to `inner`, the first ones at once."""
        if self.transport is None or inner.transport is None:
            return
        self.other = inner
        inner.transport.write(bytes(self.said))
        self.said.clear()
        self.transport.resume_reading()
