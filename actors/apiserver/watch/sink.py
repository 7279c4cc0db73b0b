"""Where a watch's bytes go. aiohttp's stream today; anything that can do these four things tomorrow."""

from typing import Protocol

from aiohttp import web


class WatchSink(Protocol):
    async def open(self, media_type: str) -> None:
        """Send status 200 and headers at once."""

    async def write(self, data: bytes) -> None:
        """Returns when the connection has taken the bytes; raises ConnectionError when it is gone."""

    async def close(self) -> None:
        """End the body cleanly."""

    def abort(self) -> None:
        """Drop the connection: the peer does not read."""


class AiohttpSink:
    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response = web.StreamResponse()

    @property
    def response(self) -> web.StreamResponse:
        return self._response

    async def open(self, media_type: str) -> None:
        self._response.content_type = media_type
        self._response.headers["Cache-Control"] = "no-cache, private"
        if self._request.version >= (1, 1):
            self._response.enable_chunked_encoding()
        await self._response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        await self._response.write(data)

    async def close(self) -> None:
        await self._response.write_eof()

    def abort(self) -> None:
        transport = self._request.transport
        if transport is not None:
            transport.abort()
