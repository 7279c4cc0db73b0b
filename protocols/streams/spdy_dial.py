"""Open a connection and upgrade it to SPDY: to a container runtime, or to a kubelet that takes no websockets."""

import asyncio
import ssl
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from protocols.errors import NodeplaneError
from protocols.streams.connections import SPDY, VERSION_HEADER

OPEN_S = 10.0
CHUNK = 32 * 1024
LARGEST_ANSWER = 64 * 1024
"""Bytes of an answer other than an upgrade, head included."""


class NotUpgraded(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when the server answers something else; `status` and `body` are its answer's."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"it answered {status} to an upgrade to {SPDY}")
        self.status, self.body = status, body


class Upgrade(msgspec.Struct, frozen=True):
    """A connection to open. `server_name` is the name in the server's certificate."""

    url: str
    protocol: str
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    headers: dict[str, str] = {}
    """Further headers, such as that of a bearer token."""


class DialedWire:
    """The bare connection after the upgrade."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return available bytes; empty at the end."""
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


async def dial(upgrade: Upgrade) -> DialedWire:
    """Raises NotUpgraded, OSError, TimeoutError."""
    async with asyncio.timeout(OPEN_S):
        parts = urlsplit(upgrade.url)
        port = parts.port or (80 if upgrade.tls is None else 443)
        reader, writer = await asyncio.open_connection(
            parts.hostname, port, ssl=upgrade.tls, server_hostname=upgrade.server_name
        )
        try:
            writer.write(_order(upgrade))
            status, head = await _head(reader)
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                return DialedWire(reader, writer)
            raise NotUpgraded(status, await _body(reader, head))
        except BaseException:
            writer.close()
            raise


def _order(upgrade: Upgrade) -> bytes:
    parts = urlsplit(upgrade.url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    further = "".join(f"{name}: {value}\r\n" for name, value in upgrade.headers.items())
    return (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\nUpgrade: {SPDY}\r\n"
        f"{VERSION_HEADER}: {upgrade.protocol}\r\n{further}Content-Length: 0\r\n\r\n"
    ).encode()


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Return the status and the headers of an answer. Raises OSError."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if ":" in line)
        return int(lines[0].split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}
    except (EOFError, asyncio.LimitOverrunError, ValueError, IndexError):
        raise ConnectionResetError("its answer is no HTTP") from None


async def _body(reader: asyncio.StreamReader, head: dict[str, str]) -> bytes:
    """Return the body of a short answer, empty if its length is not given."""
    length = head.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 8):
        return b""
    try:
        return await reader.readexactly(min(int(length), LARGEST_ANSWER))
    except EOFError as error:
        return getattr(error, "partial", b"")
