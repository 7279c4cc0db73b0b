"""The one Prometheus endpoint of a plane: GET /metrics and /healthz over the smallest HTTP that scrapers need."""

import asyncio
import errno
import fcntl
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from supervisor.metrics import healthz
from supervisor.metrics.connections import MAKING, WRITING, Connection, Connections
from supervisor.options.values import reached_at
from supervisor.root.lock import held
from supervisor.startup.ports import HOST

LINE_LIMIT = 8 * 1024
HEADERS_LIMIT = 100
REQUEST_S = 5.0
"""Of a whole connection, whose answer may be large."""
HEADERS_S = 2.0
"""Until the request has come; scrapers send it with the connection."""
RETRY_S = 5.0
TEXT = "text/plain; version=0.0.4; charset=utf-8"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Page = Callable[[], Awaitable[str]]


class MetricsOptions(msgspec.Struct, frozen=True, kw_only=True):
    port: int
    """0 = a free one."""
    host: str = HOST
    page: Page
    serving: Callable[[], Mapping[str, bool]]
    """Every actor of this supervisor, and whether it serves."""
    lock: Path
    """Held by the one group of a plane that has the port: its page is the page of all."""


class MetricsHttp:
    """Serves the page on its port. A taken port is no failure: it says so and waits for it."""

    def __init__(self, options: MetricsOptions) -> None:
        self._options = options
        self._wanted = options.port
        self._page = options.page
        self._lock = -1
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._connections = Connections()
        self._making: asyncio.Task[str] | None = None
        self.port = 0
        self.trouble = ""

    async def start(self) -> None:
        if not await self._listen():
            self._task = asyncio.create_task(self._take_over(), name="metrics-port")

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
        if self._server:
            self._server.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def endpoint(self) -> str:
        """Where the page is, or why it is not. Another group of the same plane may be the one that serves it."""
        if self.trouble and not held(self._options.lock):
            return self.trouble
        return f"http://{reached_at(self._options.host)}:{self.port or self._wanted}/metrics"

    def _claim(self) -> None:
        if self._wanted:
            with suppress(OSError):
                self._lock = os.open(self._options.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    async def _take_over(self) -> None:
        serving = False
        while not serving:
            await asyncio.sleep(RETRY_S)
            serving = await self._listen()

    async def _listen(self) -> bool:
        try:
            self._server = await asyncio.start_server(self._client, self._options.host, self._wanted, limit=LINE_LIMIT)
        except OSError as error:
            reason = "in use by another process" if error.errno == errno.EADDRINUSE else error.strerror
            self.trouble = f"port {self._wanted} is {reason}; metrics are served when it is free (--metrics-port)"
            return False
        self.port, self.trouble = self._server.sockets[0].getsockname()[1], ""
        self._claim()
        return True

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername") or ("",)
        connection = Connection(str(address[0]), writer.transport.abort)
        try:
            async with asyncio.timeout(REQUEST_S):
                if not self._connections.enter(connection):
                    writer.write(_response(503, "too many scrapes\n"))
                    return
                async with asyncio.timeout(HEADERS_S):
                    target = await read_request(reader)
                connection.phase = MAKING
                status, body = await self._answer(target)
                connection.phase = WRITING
                writer.write(_response(status, body))
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # the scraper went away, gave way or is too slow; nobody else is disturbed
        finally:
            self._connections.leave(connection)
            writer.close()

    async def _answer(self, target: str | int) -> tuple[int, str]:
        if isinstance(target, int):
            return target, f"{REASONS[target]}\n"
        path, _, query = target.partition("?")
        if path == healthz.ROOT or path.startswith(f"{healthz.ROOT}/"):
            return healthz.answer(path, query, self._options.serving())
        if path == "/metrics":
            return 200, await self._shared_page()
        return 404, "only /metrics and /healthz live here\n"

    async def _shared_page(self) -> str:
        """One page for all who ask while it is made: each asks every process of the plane."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(_made(self._page), name="metrics-page")
        return await asyncio.shield(self._making)


async def _made(page: Page) -> str:
    return await page()


async def read_request(reader: asyncio.StreamReader) -> str | int:
    """The path and query of one GET request, or the HTTP status that refuses it."""
    try:
        method, target, version = (await reader.readuntil(b"\n")).decode("ascii").split()
        if not version.startswith("HTTP/1.") or not target.startswith("/"):
            return 400
        for _ in range(HEADERS_LIMIT):
            if (await reader.readuntil(b"\n")).strip() == b"":
                return target if method == "GET" else 405
    except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return 400
    return 400


def _response(status: int, body: str) -> bytes:
    data = body.encode()
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {TEXT}\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + data
