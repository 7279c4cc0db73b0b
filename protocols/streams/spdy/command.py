"""Exec and attach from the client's side, with a runtime that speaks SPDY: a stream for each channel.

Runtimes' websockets know no message that ends an input (protocol v4); a stream of SPDY can be ended.
"""

import contextlib
from collections import deque
from collections.abc import Iterator

import aiohttp

from protocols.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDOUT, V5
from protocols.streams.spdy import frames
from protocols.streams.spdy.channels import NAMES
from protocols.streams.spdy.client import Client, Event
from protocols.streams.spdy.errors import SpdyBroken
from protocols.streams.spdy.server import Answer, Data, Ended, Reset
from protocols.streams.spdy.upgrade import ByteWire, Spdy

_PIECE = 32 * 1024
_LONGEST_STATUS = 64 * 1024
_OUTPUTS = (STDOUT, STDERR)


class Command(Spdy):
    """Use `open` first. To its user it is a websocket of the protocol that can tell the end of a stream."""

    protocol = V5

    def __init__(self, wire: ByteWire) -> None:
        super().__init__(wire)
        self._spdy = Client()
        self._streams: dict[int, int] = {}
        """Stream of each channel."""
        self._channels: dict[int, int] = {}
        self._messages: deque[bytes] = deque()
        self._status = b""

    async def open(self, channels: set[int]) -> None:
        """The runtime begins when all that it was asked for are there. Raises ConnectionError."""
        for name, channel in NAMES.items():
            if channel in channels:
                stream, data = self._spdy.open({"streamtype": name})
                self._streams[channel], self._channels[stream] = stream, channel
                await self._wire.write(data)

    async def receive(self) -> aiohttp.WSMessage:
        while not self._messages and self.close_code is None:
            if not await self._read():
                self.close_code = aiohttp.WSCloseCode.OK.value
                self._messages.extend(self._whole_status())
        if self._messages:
            return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, self._messages.popleft(), None)
        return aiohttp.WSMessage(aiohttp.WSMsgType.CLOSED, None, None)

    async def send_bytes(self, data: bytes) -> None:
        """What follows the end of a stream is dropped. Raises ConnectionError."""
        channel, content = data[0], data[1:]
        if channel == CLOSE:
            if stream := self._streams.pop(content[0] if content else CLOSE, None):
                await self._wire.write(frames.pack_data(stream, b"", fin=True))
        elif (stream := self._streams.get(channel)) is not None:
            content += b"\n" if channel == RESIZE else b""
            pieces = [content[at : at + _PIECE] for at in range(0, len(content), _PIECE)]
            await self._wire.write(b"".join(frames.pack_data(stream, piece) for piece in pieces))

    async def close(self, *, code: int = aiohttp.WSCloseCode.OK, message: bytes = b"") -> bool:
        """The connection itself is its opener's to close."""
        self.close_code = self.close_code or int(code)
        return True

    async def _read(self) -> bool:
        """One portion from the wire; False at its end, or when it is no SPDY."""
        data = await self._wire.read()
        answers = []
        try:
            for event in self._spdy.feed(data):
                if isinstance(event, Answer):
                    answers.append(event.data)
                else:
                    self._messages.extend(self._told(event))
        except SpdyBroken:
            return False
        if answers:
            with contextlib.suppress(ConnectionError):
                await self._wire.write(b"".join(answers))
        return bool(data)

    def _told(self, event: Event) -> Iterator[bytes]:
        match event:
            case Data(stream, data) if (channel := self._channels.get(stream)) in _OUTPUTS and channel is not None:
                yield bytes([channel]) + data
            case Data(stream, data) if self._channels.get(stream) == ERROR:
                self._status = (self._status + data)[:_LONGEST_STATUS]
            case Ended(stream) | Reset(stream) if self._channels.get(stream) == ERROR:
                yield from self._whole_status()

    def _whole_status(self) -> Iterator[bytes]:
        """The status may come in pieces, its reader gets it in one."""
        status, self._status = self._status, b""
        if status:
            yield bytes([ERROR]) + status
