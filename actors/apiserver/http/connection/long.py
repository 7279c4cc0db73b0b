"""Long answers: written in parts, between which others have their turn, and compressed for those who ask for it."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

GZIP_FROM = 128 * 1024
"""Bytes above which an answer is compressed when that is asked for; upstream's bound."""
GZIP_LEVEL = 4
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class LongResponse(web.StreamResponse):
    """More than GZIP_FROM bytes; how many is not known before they are made, so they go out in chunks."""

    def __init__(self, parts: Iterable[bytes], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status=status, headers=headers)
        self.on_written: Callable[[int], None] = _nobody
        """Called with the number of body bytes before compression."""
        self._parts = parts
        self._packer: zlib._Compress | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if request.method == "HEAD":
            self._parts = ()
        if not self.prepared and takes_gzip(request.headers.get("Accept-Encoding", "")):
            self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
            self.headers["Content-Encoding"] = "gzip"
        self.headers["Vary"] = "Accept-Encoding"
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        size = 0
        for part in self._parts:
            size += len(part)
            await self._put(part)
            await asyncio.sleep(0)
        if self._packer is not None:
            await self.write(self._packer.flush())
        await super().write_eof(data)
        self.on_written(size)

    async def _put(self, part: bytes) -> None:
        """Compressing 256 KiB takes milliseconds, for which it leaves the interpreter to others."""
        if self._packer is not None:
            part = await asyncio.to_thread(self._packer.compress, part)
        if part:
            await self.write(part)


def _nobody(size: int) -> None:
    """Nobody wants to know."""


def takes_gzip(accepted: str) -> bool:
    """Return True if an Accept-Encoding header accepts gzip."""
    for clause in accepted.lower().split(","):
        coding, _, weight = (text.strip() for text in clause.partition(";"))
        if coding == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
