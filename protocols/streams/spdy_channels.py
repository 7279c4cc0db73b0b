"""Exec and attach over SPDY, with a stream for each channel, used like a websocket of the channel protocol.

`SpdyChannels` is the accepting end: the client opens its streams (header `streamtype`) and waits, so there is no output
for a stream that is not open yet. `SpdyCommand` is the opening end, for runtimes that speak SPDY: their websockets have
no message that ends an input (protocol v4), but a stream of SPDY can be ended.
"""

import asyncio
import contextlib
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import ClassVar, Protocol

import aiohttp

from protocols.streams import spdy_frames as frames
from protocols.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, V4, V5
from protocols.streams.connections import ByteWire, Spdy
from protocols.streams.spdy_frames import SpdyBroken
from protocols.streams.spdy_peers import BytesToSend, Client, Data, Event, Opened, Reset, SpdyServer, StreamEnded

_PIECE = 32 * 1024
_PACE = 16 * 1024
"""Bytes received that are read in one turn of the loop: 500 header blocks, 5 ms."""


class StreamingSession(Protocol):
    """Either end of a connection, without its wire."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Raises SpdyBroken."""


async def paced(session: StreamingSession, data: bytes) -> AsyncIterator[Event]:
    """Yield the events of received bytes; other tasks run between pieces of _PACE bytes. Raises SpdyBroken."""
    for at in range(0, len(data), _PACE):
        if at:
            await asyncio.sleep(0)
        for event in session.feed(data[at : at + _PACE]):
            yield event


class Messages(Spdy):
    """Use the `open` of the end in question first."""

    protocol = V5
    over: ClassVar[aiohttp.WSCloseCode]
    """Close code for the end of the connection."""

    def __init__(self, wire: ByteWire, session: StreamingSession) -> None:
        super().__init__(wire)
        self._session = session
        self._streams: dict[int, int] = {}
        """Stream of each channel."""
        self._channels: dict[int, int] = {}
        self._messages: deque[bytes] = deque()

    async def receive(self) -> aiohttp.WSMessage:
        while not self._messages and self.close_code is None:
            if not await self._read():
                self.close_code = self.over.value
                self._messages.extend(self._last())
        if self._messages:
            return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, self._messages.popleft(), None)
        return aiohttp.WSMessage(aiohttp.WSMsgType.CLOSED, None, None)

    async def _read(self) -> bool:
        """Read once from the connection; return False at its end, or when it is no SPDY."""
        data = await self._wire.read()
        answers = []
        try:
            async for event in paced(self._session, data):
                if isinstance(event, BytesToSend):
                    answers.append(event.data)
                else:
                    self._messages.extend(self._messages_of(event))
        except SpdyBroken:
            return False
        if answers and not await self._answered(b"".join(answers)):
            return False
        return bool(data)

    async def _answered(self, data: bytes) -> bool:
        """Send an answer; return False to stop reading."""
        try:
            await self._wire.write(data)
        except ConnectionError:
            return False
        return True

    @abstractmethod
    def _messages_of(self, event: Event) -> Iterator[bytes]:
        """The messages that an event makes."""

    def _last(self) -> Iterator[bytes]:
        """Yield the messages that are due at the end of the connection."""
        return iter(())


def in_pieces(stream: int, content: bytes) -> bytes:
    """Return data frames of at most _PIECE bytes each."""
    pieces = (content[at : at + _PIECE] for at in range(0, len(content), _PIECE))
    return b"".join(frames.pack_data(stream, piece) for piece in pieces)


NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
ASKED = {"input": STDIN, "output": STDOUT, "error": STDERR}
OFFERED = V4
"""The newest protocol that is spoken over SPDY."""
OPENING_S = 30.0
_LONGEST_SIZE = 4096


def wanted(query: Mapping[str, str]) -> set[int]:
    """Return the channels that a client opens, from the node's query (`input`, `output`, `error`, `tty`)."""
    terminal = "tty" in query
    channels = {ERROR} | {channel for name, channel in ASKED.items() if name in query}
    return (channels - {STDERR}) | {RESIZE} if terminal else channels


class SpdyChannels(Messages):
    """Use `open` first."""

    over = aiohttp.WSCloseCode.GOING_AWAY

    def __init__(self, wire: ByteWire) -> None:
        super().__init__(wire, SpdyServer())
        self._sizes = b""

    async def open(self, channels: set[int]) -> bool:
        """Wait until the client has opened all channels; return False if it does not within OPENING_S."""
        try:
            async with asyncio.timeout(OPENING_S):
                while not channels <= self._streams.keys():
                    if not await self._read():
                        return False
        except TimeoutError:
            return False
        return True

    async def send_bytes(self, data: bytes) -> None:
        """Send a message; one on the error channel ends the others before it. Raises ConnectionError."""
        channel, content = data[0], data[1:]
        if channel == ERROR:
            ends = (self._streams[c] for c in (STDOUT, STDERR) if c in self._streams)
            await self._wire.write(b"".join(frames.pack_data(stream, b"", fin=True) for stream in ends))
        if (stream := self._streams.get(channel)) is None:
            return
        await self._wire.write(in_pieces(stream, content))
        if channel == ERROR:
            await self._wire.write(frames.pack_data(stream, b"", fin=True))

    def _messages_of(self, event: Event) -> Iterator[bytes]:
        match event:
            case Opened(stream, headers):
                channel = NAMES.get(headers.get("streamtype", ""))
                if channel is not None and channel not in self._streams:  # a client may open and reset without end
                    self._streams[channel], self._channels[stream] = stream, channel
            case Data(stream, data) if self._channels.get(stream) == RESIZE:
                yield from self._resized(data)
            case Data(stream, data) if self._channels.get(stream) == STDIN:
                yield bytes([STDIN]) + data
            case StreamEnded(stream) | Reset(stream) if self._channels.get(stream) == STDIN:
                yield bytes([CLOSE, STDIN])

    def _resized(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete sizes: one JSON object a line."""
        *lines, self._sizes = (self._sizes + data).split(b"\n")
        self._sizes = self._sizes[-_LONGEST_SIZE:]
        yield from (bytes([RESIZE]) + line for line in lines)


_LONGEST_STATUS = 64 * 1024
_OUTPUTS = (STDOUT, STDERR)


class SpdyCommand(Messages):
    """Use `open` first."""

    over = aiohttp.WSCloseCode.OK

    def __init__(self, wire: ByteWire) -> None:
        self._spdy = Client()
        super().__init__(wire, self._spdy)
        self._status = b""

    async def open(self, channels: set[int]) -> None:
        """Open the channels; the runtime begins once all that it was asked for are there. Raises ConnectionError."""
        for name, channel in NAMES.items():
            if channel in channels:
                stream, data = self._spdy.open({"streamtype": name})
                self._streams[channel], self._channels[stream] = stream, channel
                await self._wire.write(data)

    async def send_bytes(self, data: bytes) -> None:
        """Send a message; data after the end of a stream is dropped. Raises ConnectionError."""
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
        """Ignore a failed write: a runtime that reads no more may have sent a status that is not read yet."""
        with contextlib.suppress(ConnectionError):
            await self._wire.write(data)
        return True

    def _messages_of(self, event: Event) -> Iterator[bytes]:
        match event:
            case Data(stream, data) if (channel := self._channels.get(stream)) in _OUTPUTS and channel is not None:
                yield bytes([channel]) + data
            case Data(stream, data) if self._channels.get(stream) == ERROR:
                self._status = (self._status + data)[:_LONGEST_STATUS]
            case StreamEnded(stream) | Reset(stream) if self._channels.get(stream) == ERROR:
                yield from self._last()

    def _last(self) -> Iterator[bytes]:
        """The status may come in pieces, its reader gets it in one."""
        status, self._status = self._status, b""
        if status:
            yield bytes([ERROR]) + status
