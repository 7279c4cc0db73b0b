"""Watches over websockets: each event is a message, of text for JSON and binary for protobuf.

The task of the request lives as long as the watch: such clients are browsers and consoles, which are few.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from aiohttp import web

SIZE_BYTES = 4
"""Bytes of the length before an event in protobuf. A message has a length of its own."""


def events_of(data: bytes, binary: bool) -> Iterator[bytes]:
    """Split what a watch writes into its events, without their framing."""
    if not binary:
        yield from data.splitlines(keepends=True)
        return
    at = 0
    while at < len(data):
        start = at + SIZE_BYTES
        at = start + int.from_bytes(data[at:start], "big")
        yield data[start:at]


class MessageTransport(asyncio.Transport):
    """The transport of a WatchConnection whose client gets messages; `send` writes them."""

    def __init__(self, response: web.WebSocketResponse, transport: asyncio.Transport, binary: bool) -> None:
        super().__init__()
        self._response, self._transport, self._binary = response, transport, binary
        self._unsent: list[bytes] = []
        self._size = self._high = 0
        self._wake = asyncio.Event()
        self._paused = self._ended = False
        self._protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._ended or self._transport.is_closing()

    def write(self, data: Any) -> None:
        self._unsent.append(data)
        self._size += len(data)
        self._wake.set()
        if self._protocol is not None and self._size > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """End `send` once everything is written."""
        self._ended = True
        self._wake.set()

    def abort(self) -> None:
        self._transport.abort()

    async def send(self) -> None:
        """Send what is written, until `close`. Raises ConnectionError if the client leaves."""
        write = self._response.send_bytes if self._binary else self._send_text
        while self._unsent or not self._ended:
            await self._wake.wait()
            self._wake.clear()
            data, self._unsent, self._size = b"".join(self._unsent), [], 0
            for event in events_of(data, self._binary):
                await write(event)
            if self._paused:
                self._paused = False
                self._protocol.resume_writing()

    async def _send_text(self, event: bytes) -> None:
        await self._response.send_str(event.decode())
