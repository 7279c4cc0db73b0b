"""Client connections to the store's private endpoint (frames.py)."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from protocols.etcd.transport.connection_channel import LOST, CallConnection, ConnectionChannel, OnMessage
from protocols.etcd.transport.frames import ERROR, GREETING, NUMBERS, BadFrame, FrameWriter, Splitter, pack

LARGEST = 256 * 1024 * 1024
_GONE = f"UNAVAILABLE\0{LOST}".encode()


class PrivateConnection(asyncio.Protocol):
    """One connection, as ConnectionChannel uses it; whoever lost it learns of open calls by `lost`."""

    def __init__(self, heard: OnMessage, lost: Callable[[], None]) -> None:
        self._heard, self._lost = heard, lost
        self._splitter = Splitter(LARGEST)
        self._open: dict[int, bool] = {}
        """Calls under way; True where one message is the whole answer."""
        self._transport: asyncio.Transport | None = None
        self._frames: FrameWriter | None = None

    @property
    def draining(self) -> bool:
        """True once the transport is closing; connection_lost comes a turn of the loop later."""
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._frames = FrameWriter(self._transport)
        self._frames.write(GREETING)

    def send(self, number: int, method: str, body: bytes, last: bool) -> None:
        self._open[number] = last
        if self._frames is not None:
            self._frames.write(pack(number, NUMBERS[method], body))

    def cancel(self, number: int) -> None:
        self._open.pop(number, None)

    def pause(self, pause: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing() and transport.is_reading() == pause:
            transport.pause_reading() if pause else transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for number, kind, body in self._splitter.feed(data):
                if kind == ERROR or self._open.get(number):
                    self._open.pop(number, None)
                self._heard(number, kind, body)
        except BadFrame:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = self._frames = None
        self._lost()
        under_way, self._open = self._open, {}
        for number in under_way:
            self._heard(number, ERROR, _GONE)


async def dial(path: Path, heard: OnMessage, lost: Callable[[], None]) -> CallConnection:
    """Raises OSError."""
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: PrivateConnection(heard, lost), str(path)
    )
    return connection


def private_channel(path: Path) -> ConnectionChannel:
    """Return a channel to the endpoint at this path, which connects on the first call."""
    return ConnectionChannel(str(path), partial(dial, path))
