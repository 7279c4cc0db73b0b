"""A connection to the container runtime's streaming server, taken out of HTTP: bytes from then on."""

import asyncio
from urllib.parse import urlsplit

from actors.podworker.streaming.errors import RuntimeAway
from protocols.streams.spdy.upgrade import SPDY, VERSION_HEADER

OPEN_S = 10.0
CHUNK = 32 * 1024


class RuntimeWire:
    """Reads and writes what both ends agreed on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """What there is; empty at the end."""
        try:
            return await self._reader.read(CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def upgraded(url: str, protocol: str) -> RuntimeWire:
    """Raises RuntimeAway when the runtime does not open the connection."""
    where = urlsplit(url)
    path = where.path + (f"?{where.query}" if where.query else "")
    order = (
        f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: Upgrade\r\nUpgrade: {SPDY}\r\n"
        f"{VERSION_HEADER}: {protocol}\r\nContent-Length: 0\r\n\r\n"
    )
    try:
        async with asyncio.timeout(OPEN_S):
            reader, writer = await asyncio.open_connection(where.hostname, where.port or 80)
            writer.write(order.encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode(errors="replace")
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
        raise RuntimeAway(f"the container runtime does not open the stream: {error}") from None
    if answer.split(" ")[1:2] != ["101"]:
        writer.close()
        raise RuntimeAway(f"the container runtime does not open the stream: it answered {answer!r}")
    return RuntimeWire(reader, writer)
