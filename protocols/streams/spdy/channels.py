"""Exec and attach over SPDY: a stream for each channel, told as the messages of the websocket protocol.

The client opens its streams (header `streamtype`) and waits; output for one that is not there yet cannot happen.
"""

import asyncio
from collections.abc import Iterator, Mapping

import aiohttp

from protocols.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, V4
from protocols.streams.spdy import frames
from protocols.streams.spdy.messages import Messages, in_pieces
from protocols.streams.spdy.server import Data, Ended, Event, Opened, Reset, Server
from protocols.streams.spdy.upgrade import ByteWire

NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
ASKED = {"input": STDIN, "output": STDOUT, "error": STDERR}
OFFERED = V4
"""The newest protocol that is spoken over SPDY."""
OPENING_S = 30.0
_LONGEST_SIZE = 4096


def wanted(query: Mapping[str, str]) -> set[int]:
    """Channels a client opens, by what it asked the node for (`input`, `output`, `error`, `tty`)."""
    terminal = "tty" in query
    found = {ERROR} | {channel for name, channel in ASKED.items() if name in query}
    return (found - {STDERR}) | {RESIZE} if terminal else found


class SpdyChannels(Messages):
    """Use `open` first."""

    over = aiohttp.WSCloseCode.GOING_AWAY

    def __init__(self, wire: ByteWire) -> None:
        super().__init__(wire, Server())
        self._sizes = b""

    async def open(self, channels: set[int]) -> bool:
        """Until the client has opened all of them; False when it does not."""
        try:
            async with asyncio.timeout(OPENING_S):
                while not channels <= self._streams.keys():
                    if not await self._read():
                        return False
        except TimeoutError:
            return False
        return True

    async def send_bytes(self, data: bytes) -> None:
        """A message on the error channel is the last: the others end before it. Raises ConnectionError."""
        channel, content = data[0], data[1:]
        if channel == ERROR:
            ends = (self._streams[c] for c in (STDOUT, STDERR) if c in self._streams)
            await self._wire.write(b"".join(frames.pack_data(stream, b"", fin=True) for stream in ends))
        if (stream := self._streams.get(channel)) is None:
            return
        await self._wire.write(in_pieces(stream, content))
        if channel == ERROR:
            await self._wire.write(frames.pack_data(stream, b"", fin=True))

    def _told(self, event: Event) -> Iterator[bytes]:
        match event:
            case Opened(stream, headers) if (channel := NAMES.get(headers.get("streamtype", ""))) is not None:
                self._streams.setdefault(channel, stream)
                self._channels[stream] = channel
            case Data(stream, data) if self._channels.get(stream) == RESIZE:
                yield from self._resized(data)
            case Data(stream, data) if self._channels.get(stream) == STDIN:
                yield bytes([STDIN]) + data
            case Ended(stream) | Reset(stream) if self._channels.get(stream) == STDIN:
                yield bytes([CLOSE, STDIN])

    def _resized(self, data: bytes) -> Iterator[bytes]:
        """One JSON object a line."""
        *lines, self._sizes = (self._sizes + data).split(b"\n")
        self._sizes = self._sizes[-_LONGEST_SIZE:]
        yield from (bytes([RESIZE]) + line for line in lines)
