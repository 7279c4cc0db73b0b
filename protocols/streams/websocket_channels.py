"""Exec and attach over any websocket protocol of clients, used like a websocket of `v5.channel.k8s.io`.

- Messages are binary, or text that is base64 after the digit of its channel. Text in a binary protocol is its UTF-8.
- Protocols before v4 have no Status on the error channel: only the message of a failure, and nothing of a success.
- A client that names no protocol speaks `channel.k8s.io`.
"""

import base64
import binascii

import aiohttp
import msgspec
from aiohttp import web

from protocols.process.files import UNREADABLE
from protocols.streams.channels import CLOSE, ERROR, V4, V5
from protocols.streams.connections import MESSAGES, Received, Socket

BASE64_V4, CHANNEL, BASE64_CHANNEL, UNNAMED = "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", ""


class Codec(msgspec.Struct, frozen=True):
    """Form of the messages of a protocol."""

    base64: bool = False
    statuses: bool = False
    """The error channel carries a Status, else the text of a failure."""
    closes: bool = False
    """A message can end a channel."""


CODECS = {
    V5: Codec(statuses=True, closes=True),
    V4: Codec(statuses=True),
    BASE64_V4: Codec(base64=True, statuses=True),
    CHANNEL: Codec(),
    BASE64_CHANNEL: Codec(base64=True),
    UNNAMED: Codec(),
}
"""The protocols of exec and attach."""


def received(codec: Codec, message: bytes | str) -> bytes | None:
    """Return a client's message as one of v5; None if it is none that this protocol has."""
    data = message.encode() if isinstance(message, str) else message
    if not data:
        return None
    if codec.base64:
        channel, text = (data[0] - ord("0")) % 256, data[1:].translate(None, b"\r\n")
        try:
            data = bytes([channel]) + base64.b64decode(text, validate=True)
        except binascii.Error:
            return None
    if data[0] == CLOSE and not codec.closes:
        return None
    return data


def sent(codec: Codec, message: bytes) -> bytes | str | None:
    """Return a message of v5 as this protocol has it; None if it has none."""
    channel, content = message[0], message[1:]
    if channel == CLOSE and not codec.closes:
        return None
    if channel == ERROR and content and not codec.statuses:
        content = failure_text(content)
        if not content:
            return None
    if codec.base64:
        return chr(ord("0") + channel) + base64.b64encode(content).decode()
    return bytes([channel]) + content


async def send(socket: Socket, codec: Codec, data: bytes) -> None:
    """Send a message of v5 as this protocol has it, if it has it. Raises ConnectionError."""
    message = sent(codec, data)
    if isinstance(message, str):
        await socket.send_str(message)
    elif message is not None:
        await socket.send_bytes(message)


BINARY_LOG, BASE64_LOG = "binary.k8s.io", "base64.binary.k8s.io"
LOG_PROTOCOLS = (BINARY_LOG, BASE64_LOG, UNNAMED)
"""Logs over a websocket: messages to the client only, without channels."""


async def log_message(socket: web.WebSocketResponse, protocol: str, data: bytes) -> None:
    """Raises ConnectionError."""
    if protocol == BASE64_LOG:
        await socket.send_str(base64.b64encode(data).decode())
    else:
        await socket.send_bytes(data)


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""


def failure_text(status: bytes) -> bytes:
    """Return the message of a failure; empty for a success."""
    try:
        decoded = msgspec.json.decode(status, type=_Status)
    except UNREADABLE:
        return status
    return b"" if decoded.status == "Success" else decoded.message.encode()


class WebsocketChannels(Received):
    """The client's end of exec and attach: `receive` and `send_bytes` have the messages of v5."""

    def __init__(self, socket: web.WebSocketResponse, protocol: str) -> None:
        self._socket, self._codec = socket, CODECS[protocol]

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code

    async def receive(self) -> aiohttp.WSMessage:
        while True:
            message = await self._socket.receive()
            if message.type not in MESSAGES:
                return message
            if data := received(self._codec, message.data):
                return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)

    async def begin(self, channel: int) -> None:
        """Send an empty message: clients wait for one to know that the connection is there. Raises ConnectionError."""
        await send(self._socket, self._codec, bytes([channel]))

    async def send_bytes(self, data: bytes) -> None:
        """Send a message; empty ones of a server further on are dropped. Raises ConnectionError."""
        if len(data) > 1:
            await send(self._socket, self._codec, data)

    async def send_str(self, data: str) -> None:
        """Do nothing: messages of v5 are binary."""

    async def close(self, *, code: int = aiohttp.WSCloseCode.OK, message: bytes = b"") -> bool:
        return await self._socket.close(code=code, message=message)
