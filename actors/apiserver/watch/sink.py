"""Where a watch's bytes go: through aiohttp, which waits for a reader that lags, or straight to the connection."""

import asyncio
from typing import Protocol

from aiohttp import web

CONGESTED_BYTES = 64 * 1024
"""Unsent bytes of a connection above which its watch waits for its reader."""


class WatchSink(Protocol):
    async def open(self, media_type: str) -> None:
        """Send status 200 and headers at once."""

    async def write(self, data: bytes) -> None:
        """Returns when the connection has taken the bytes; raises ConnectionError when it is gone."""

    def write_now(self, chunk: bytes) -> bool:
        """Take a ready chunk of a chunked body without waiting. False, and nothing taken: use `write`."""

    async def close(self) -> None:
        """End the body cleanly."""

    def abort(self) -> None:
        """Drop the connection: the peer does not read."""


class AiohttpSink:
    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response = web.StreamResponse()
        self._transport: asyncio.WriteTransport | None = None
        """For `write_now`, once the headers are out; None where the body has no chunks."""

    @property
    def response(self) -> web.StreamResponse:
        return self._response

    async def open(self, media_type: str) -> None:
        self._response.content_type = media_type
        self._response.headers["Cache-Control"] = "no-cache, private"
        if self._request.version >= (1, 1):
            self._response.enable_chunked_encoding()
        await self._response.prepare(self._request)
        if self._response.chunked:
            self._transport = self._request.transport

    async def write(self, data: bytes) -> None:
        await self._response.write(data)

    def write_now(self, chunk: bytes) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > CONGESTED_BYTES:
            return False
        transport.write(chunk)
        return True

    async def close(self) -> None:
        await self._response.write_eof()

    def abort(self) -> None:
        transport = self._request.transport
        if transport is not None:
            transport.abort()
