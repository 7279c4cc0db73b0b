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
        self._head = b""
        self._writer: AbstractStreamWriter | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """To be sent with the body."""
        if self._writer is None:
            self._writer = request.writer
            self._head = self._made(request).encode()
            if request.method == hdrs.METH_HEAD:
                self.body = b""
        return self._writer

    async def write_eof(self, data: bytes = b"") -> None:
        if self._writer is not None:
            await self._writer.write_eof(self._head + self.body)

    def _made(self, request: web.BaseRequest) -> str:
        """Status line and headers. Raises ValueError for a header of several lines."""
        version, headers = request.version, self.headers
        told = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if told.count("\n") != len(headers) or told.count("\r") != len(headers):
            raise ValueError("a header with a line break")
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        if self._keep_alive and version == HttpVersion10:
            told += "Connection: keep-alive\r\n"
        elif not self._keep_alive and version == HttpVersion11:
            told += "Connection: close\r\n"
        line = f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}\r\n{told}"
        ours = f"Date: {rfc822_formatted_time()}\r\nServer: {SERVER_SOFTWARE}\r\n"
        return f"{line}Content-Length: {len(self.body)}\r\n{ours}\r\n"
