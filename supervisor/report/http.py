"""The one Prometheus endpoint of a plane: GET /metrics and /healthz over the smallest HTTP that scrapers need."""

import asyncio
import errno
import fcntl
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from supervisor.base.options import LOOPBACK
from supervisor.base.values import reached_at
from supervisor.report import http as healthz
from supervisor.root.lock import held

ROOT = "/healthz"
KUBELETS_NAMES = {"devices": "device-plugin"}
"""Parts that kubelet's page knows under another name: there it is the server that device plugins register with."""


def answer(path: str, query: str, serving: Mapping[str, bool]) -> tuple[int, str]:
    """`serving`: each actor of this supervisor, and whether it serves."""
    parts = {KUBELETS_NAMES.get(name, name): well for name, well in serving.items()}
    wanted = path.removeprefix(ROOT).strip("/")
    if wanted and wanted not in parts:
        return 404, f"no part {wanted} here; there are {' '.join(parts)}\n"
    if wanted:
        parts = {wanted: parts[wanted]}
    if all(parts.values()):
        return 200, _list(parts, "passed") if "verbose" in query.split("&") else "ok\n"
    return 500, _list(parts, "failed")


def _list(parts: Mapping[str, bool], verdict: str) -> str:
    lines = (f"[+]{name} ok" if well else f"[-]{name} failed" for name, well in parts.items())
    return "\n".join((*lines, f"healthz check {verdict}\n"))


MOST = 32
"""Connections at once."""
MOST_OF_PEER = 24
"""Of one address: scrapers of other addresses always find room. All of this machine share one address."""
READING, MAKING, WRITING = "reading", "making", "writing"
"""The request has not come whole; its answer is made; the answer has not been taken whole."""


class Connection(msgspec.Struct, eq=False):
    peer: str
    close: Callable[[], None]
    """At once, whatever has not been sent."""
    phase: str = READING


class Connections:
    """In the order in which they came. The answer of one in the phase MAKING costs a moment, so it never gives way."""

    def __init__(self) -> None:
        self._open: list[Connection] = []

    def enter(self, connection: Connection) -> bool:
        """Let it in, instead of the one that has kept us waiting longest if need be; False when nobody gives way."""
        of_peer = [each for each in self._open if each.peer == connection.peer]
        full = len(self._open) >= MOST
        if len(of_peer) >= MOST_OF_PEER or full:
            leaving = _idlest(of_peer) if len(of_peer) >= MOST_OF_PEER else _idlest(self._of_busiest())
            if leaving is None:
                return False
            self.leave(leaving)
            leaving.close()
        self._open.append(connection)
        return True

    def leave(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.remove(connection)

    def _of_busiest(self) -> list[Connection]:
        """Connections of the address that has most of those that may give way."""
        counts = Counter(each.peer for each in self._open if each.phase != MAKING)
        busiest = counts.most_common(1)[0][0] if counts else ""
        return [each for each in self._open if each.peer == busiest]


def _idlest(connections: list[Connection]) -> Connection | None:
    for phase in (READING, WRITING):
        for connection in connections:
            if connection.phase == phase:
                return connection
    return None


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
    host: str = LOOPBACK
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
