"""Exec and attach from the client's side, with a runtime that speaks SPDY: a stream for each channel.

Runtimes' websockets know no message that ends an input (protocol v4); a stream of SPDY can be ended.
"""

import contextlib
from collections.abc import Iterator

import aiohttp

from protocols.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDOUT
from protocols.streams.spdy import frames
from protocols.streams.spdy.channels import NAMES
from protocols.streams.spdy.client import Client
from protocols.streams.spdy.messages import Messages, in_pieces
from protocols.streams.spdy.server import Data, Ended, Event, Reset
from protocols.streams.spdy.upgrade import ByteWire

_LONGEST_STATUS = 64 * 1024
_OUTPUTS = (STDOUT, STDERR)


class Command(Messages):
    """Use `open` first."""

    over = aiohttp.WSCloseCode.OK

    def __init__(self, wire: ByteWire) -> None:
        self._spdy = Client()
        super().__init__(wire, self._spdy)
        self._status = b""

    async def open(self, channels: set[int]) -> None:
        """The runtime begins when all that it was asked for are there. Raises ConnectionError."""
        for name, channel in NAMES.items():
            if channel in channels:
                stream, data = self._spdy.open({"streamtype": name})
                self._streams[channel], self._channels[stream] = stream, channel
                await self._wire.write(data)

    async def send_bytes(self, data: bytes) -> None:
        """What follows the end of a stream is dropped. Raises ConnectionError."""
        channel, content = data[0], data[1:]
        if channel == CLOSE:
            if stream := self._streams.pop(content[0] if content else CLOSE, None):
                await self._wire.write(frames.pack_data(stream, b"", fin=True))
        elif (stream := self._streams.get(channel)) is not None:
            content += b"\n" if channel == RESIZE else b""
            await self._wire.write(in_pieces(stream, content))

    async def close(self, *, code: int = aiohttp.WSCloseCode.OK, message: bytes = b"") -> bool:
        """The connection itself is its opener's to close."""
        self.close_code = self.close_code or int(code)
        return True

    async def _answered(self, data: bytes) -> bool:
        """A runtime that takes nothing more may have told a status that is still to be read."""
        with contextlib.suppress(ConnectionError):
            await self._wire.write(data)
        return True

    def _told(self, event: Event) -> Iterator[bytes]:
        match event:
            case Data(stream, data) if (channel := self._channels.get(stream)) in _OUTPUTS and channel is not None:
                yield bytes([channel]) + data
            case Data(stream, data) if self._channels.get(stream) == ERROR:
                self._status = (self._status + data)[:_LONGEST_STATUS]
            case Ended(stream) | Reset(stream) if self._channels.get(stream) == ERROR:
                yield from self._last()

    def _last(self) -> Iterator[bytes]:
        """The status may come in pieces, its reader gets it in one."""
        status, self._status = self._status, b""
        if status:
            yield bytes([ERROR]) + status
