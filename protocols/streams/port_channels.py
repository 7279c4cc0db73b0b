"""Port-forward over the websocket protocols that have no SPDY in them, used like the tunnel that has.

Each port has a pair of channels: data at twice its index, and errors at the next. The first message on each is the
port, 16 bits little-endian. A pair is one connection to the port, so a client opens a websocket for each connection.
"""

import asyncio
import struct
from collections.abc import Iterable, Mapping

import aiohttp
import msgspec
from aiohttp import web

from protocols.errors import NodeplaneError
from protocols.process.tasks import awaited, cancel
from protocols.streams import spdy_frames as frames
from protocols.streams.connections import MESSAGES, Received
from protocols.streams.spdy_channels import in_pieces, paced
from protocols.streams.spdy_frames import SpdyBroken
from protocols.streams.spdy_peers import BytesToSend, Client, Data, Reset, StreamEnded
from protocols.streams.websocket_channels import CODECS, received, send

MOST_PORTS = 32
UNSENT = 8 << 20
"""Bytes for the far end that wait: a message of the client, and answers to pings, which the far end may not read."""
_OVER = aiohttp.WSMessage(aiohttp.WSMsgType.CLOSED, None, None)


class PortsInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a query names no port, a number that is none, or too many."""


def is_port(text: str) -> bool:
    """Return True for a number from 1 to 65535."""
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def ports_of(values: Iterable[str]) -> tuple[int, ...]:
    """Return the ports of a query: several parameters, or one with commas. Raises PortsInvalid."""
    words = [word for value in values for word in value.split(",")]
    if not words:
        raise PortsInvalid('query parameter "ports" is required')
    for word in words:
        if not is_port(word):
            raise PortsInvalid(f'unable to parse "{word:.20}" as a port: use a number from 1 to 65535')
    if len(words) > MOST_PORTS:
        raise PortsInvalid(f"{len(words)} ports are more than {MOST_PORTS}: open several connections")
    return tuple(int(word) for word in words)


class _Stream(msgspec.Struct, frozen=True):
    channel: int
    data: bool


class PortChannels(Received):
    """`receive` returns bytes of a SPDY connection, which begin with its streams; `send_bytes` takes the far end's."""

    def __init__(self, socket: web.WebSocketResponse, protocol: str, ports: tuple[int, ...]) -> None:
        self._socket = socket
        self._codec = msgspec.structs.replace(CODECS[protocol], statuses=True)  # channel 3 is no Status here
        self._ports = ports
        self._spdy = Client()
        self._outgoing = bytearray()
        self._channels: dict[int, _Stream] = {}
        """By stream."""
        self._streams: dict[int, int] = {}
        """Data stream of each data channel."""
        self._woken = asyncio.Event()
        self._reading: asyncio.Task[aiohttp.WSMessage] | None = None
        self._over = False

    @property
    def close_code(self) -> int | None:
        return aiohttp.WSCloseCode.OK.value if self._over else self._socket.close_code

    async def open(self) -> None:
        """Send the client the ports and open their streams. Raises ConnectionError."""
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                await send(self._socket, self._codec, bytes([channel]) + struct.pack("<H", port))
            headers = {"port": str(port), "requestid": str(index)}
            self._open(2 * index + 1, {"streamtype": "error", **headers})
            self._streams[2 * index] = self._open(2 * index, {"streamtype": "data", **headers})

    def _open(self, channel: int, headers: Mapping[str, str]) -> int:
        data = headers["streamtype"] == "data"
        stream, opening = self._spdy.open(dict(headers))
        self._channels[stream] = _Stream(channel, data)
        self._outgoing += opening + (b"" if data else frames.pack_data(stream, b"", fin=True))
        return stream

    async def receive(self) -> aiohttp.WSMessage:
        while not self._outgoing:
            message = await self._next()
            if self._over:
                return _OVER
            if message is not None and message.type not in MESSAGES:
                return message
            data = received(self._codec, message.data) if message is not None else None
            if data and (stream := self._streams.get(data[0])) is not None:
                self._outgoing += in_pieces(stream, data[1:])
        data = bytes(self._outgoing)
        self._outgoing.clear()
        return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)

    async def _next(self) -> aiohttp.WSMessage | None:
        """Return the client's next message; None when there is something else to do."""
        if self._reading is None:
            self._reading = awaited(self._socket.receive())
        woken = awaited(self._woken.wait())
        try:
            await asyncio.wait((self._reading, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        self._woken.clear()
        if not self._reading.done():
            return None
        message, self._reading = self._reading.result(), None
        return message

    async def send_bytes(self, data: bytes) -> None:
        """Raises ConnectionError."""
        try:
            async for event in paced(self._spdy, data):
                match event:
                    case BytesToSend(answer):
                        self._outgoing += answer
                    case Data(stream, content) if content:
                        await send(self._socket, self._codec, bytes([self._channels[stream].channel]) + content)
                    case StreamEnded(stream) | Reset(stream):
                        self._ended(stream)
        except SpdyBroken as error:
            raise ConnectionResetError(str(error)) from None
        if len(self._outgoing) > UNSENT:
            raise ConnectionResetError("the far end sends pings and reads no answers")
        if self._outgoing or self._over:
            self._woken.set()

    def _ended(self, stream: int) -> None:
        self._channels.pop(stream, None)
        self._over = not self._channels

    async def send_str(self, data: str) -> None:
        """Do nothing: SPDY has no text."""

    async def close(self, *, code: int = aiohttp.WSCloseCode.OK, message: bytes = b"") -> bool:
        if self._reading is not None:
            await cancel(self._reading)
        return await self._socket.close(code=code, message=message)
