"""Short answers: known whole before their first byte, which goes out with the last one."""

from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion10, HttpVersion11


class WholeResponse(web.StreamResponse):
    """A body and its length. Of what aiohttp's own can do besides - cookies, compression, chunks - nothing is asked."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status=status, headers=headers)
        self.body = body
        self._writer: AbstractStreamWriter | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """To be sent with the body."""
        if self._writer is not None:
            return None
        writer = self._writer = request.writer
        headers, version = self.headers, request.version
        headers[hdrs.CONTENT_LENGTH] = str(len(self.body))
        headers[hdrs.DATE] = rfc822_formatted_time()
        headers[hdrs.SERVER] = SERVER_SOFTWARE
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        if self._keep_alive and version == HttpVersion10:
            headers[hdrs.CONNECTION] = "keep-alive"
        elif not self._keep_alive and version == HttpVersion11:
            headers[hdrs.CONNECTION] = "close"
        if request.method == hdrs.METH_HEAD:
            self.body = b""
        await writer.write_headers(f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}", headers)
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        if self._writer is not None:
            await self._writer.write_eof(self.body)
