"""The HTTP endpoint of a plane: GET /metrics for Prometheus, and /healthz as Kubernetes has it.

`/healthz` answers ok, or the actors that do not serve; `/healthz?verbose` lists all; `/healthz/NAME` is one actor. The
server is minimal: no HTTP library in a process that every other one depends on.
"""

import asyncio
import errno
import fcntl
import gzip
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import msgspec

from protocols.process.files import is_locked
from protocols.process.tasks import awaited, restarted, shared
from supervisor.base.options import LOOPBACK
from supervisor.base.values import reached_at

HEALTHZ = "/healthz"
KUBELET_NAMES = {"devices": "device-plugin"}
"""Actors that kubelet's page lists under another name."""


def healthz_answer(path: str, query: str, serving: Mapping[str, bool]) -> tuple[int, str]:
    """Return status and body. `serving`: whether each actor of this supervisor serves."""
    parts = {KUBELET_NAMES.get(name, name): well for name, well in serving.items()}
    wanted = path.removeprefix(HEALTHZ).strip("/")
    if wanted and wanted not in parts:
        return 404, f"no part {wanted} here; there are {' '.join(parts)}\n"
    if wanted:
        parts = {wanted: parts[wanted]}
    if all(parts.values()):
        verbose = any(part.partition("=")[0] == "verbose" for part in query.split("&"))
        return 200, _health_list(parts, "passed") if verbose else "ok\n"
    return 500, _health_list(parts, "failed")


def _health_list(parts: Mapping[str, bool], verdict: str) -> str:
    lines = (f"[+]{name} ok" if well else f"[-]{name} failed" for name, well in parts.items())
    return "\n".join((*lines, f"healthz check {verdict}\n"))


MAX_CONNECTIONS = 32
MAX_CONNECTIONS_OF_PEER = 24
"""Limit per address, which leaves room for scrapers elsewhere; all clients on this machine share one address."""
READING, ANSWERING, WRITING = "reading", "answering", "writing"
"""Phases of a connection: the request is incomplete; the answer is computed; the answer is sent."""


class ReportConnection(msgspec.Struct, eq=False):
    """A connection, for its deadline and for the bound on their number."""

    peer: str
    close: Callable[[], None]
    """Close at once, without sending what is queued."""
    phase: str = READING


class Connections:
    """Open connections, oldest first. When there are too many, one that waits for its client is closed. Pure."""

    def __init__(self) -> None:
        self._open: list[ReportConnection] = []

    def enter(self, connection: ReportConnection) -> bool:
        """Admit a connection, if need be by closing the longest idle one; return False if none is idle."""
        of_peer = [other for other in self._open if other.peer == connection.peer]
        full = len(self._open) >= MAX_CONNECTIONS
        if len(of_peer) >= MAX_CONNECTIONS_OF_PEER or full:
            candidates = of_peer if len(of_peer) >= MAX_CONNECTIONS_OF_PEER else self._of_busiest()
            leaving = _longest_idle(candidates)
            if leaving is None:
                return False
            self.leave(leaving)
            leaving.close()
        self._open.append(connection)
        return True

    def leave(self, connection: ReportConnection) -> None:
        if connection in self._open:
            self._open.remove(connection)

    def _of_busiest(self) -> list[ReportConnection]:
        """Return the connections of the address with most connections that can be closed."""
        counts = Counter(connection.peer for connection in self._open if connection.phase != ANSWERING)
        busiest = counts.most_common(1)[0][0] if counts else ""
        return [connection for connection in self._open if connection.peer == busiest]


def _longest_idle(connections: list[ReportConnection]) -> ReportConnection | None:
    for phase in (READING, WRITING):
        for connection in connections:
            if connection.phase == phase:
                return connection
    return None


LINE_LIMIT = 8 * 1024
HEADERS_LIMIT = 100
REQUEST_S = 5.0
"""Limit of a whole connection, whose answer may be large."""
HEADERS_S = 2.0
"""Limit for the request; scrapers send it at once."""
RETRY_S = 5.0
GZIP_MIN, GZIP_LEVEL = 16 << 10, 1
"""Shortest body that is compressed, and the level."""
READS_GZIP = re.compile(rb"accept-encoding:(.*,)?\s*gzip\s*(;\s*q=(?!0[.0]*\s*(,|$))[\d.]+\s*)?(,.*)?", re.IGNORECASE)
"""Header of a client that reads gzip, among other codings or alone; `q=0` says that it does not."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
REASONS = {status: HTTPStatus(status).phrase for status in (200, 400, 404, 405, 500, 503)}

Page = Callable[[], Awaitable[str]]


class MetricsHttp:
    """Serve the page. A port in use is no failure: `endpoint` reports it, and the port is retried."""

    def __init__(
        self, page: Page, serving: Callable[[], Mapping[str, bool]], lock: Path, *, port: int = 0, host: str = LOOPBACK
    ) -> None:
        """Serve on `port`, 0 = a free one.

        `serving` returns whether each actor of this supervisor serves. `lock` is the file of the one group of a plane
        that has the port; its page covers all groups.
        """
        self._page, self._serving, self._lock_file = page, serving, lock
        self._wanted, self._host = port, host
        self._lock = -1
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._connections = Connections()
        self._page_task: asyncio.Task[str] | None = None
        self.port = 0
        self.trouble = ""

    async def start(self) -> None:
        if not await self._listen():
            self._task = awaited(restarted(self._take_over, "metrics port"), "metrics port")

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
        """URL of the page, which another group of the plane may serve, or the reason why there is none."""
        if self.trouble and not is_locked(self._lock_file):
            return self.trouble
        return f"http://{reached_at(self._host)}:{self.port or self._wanted}/metrics"

    def _claim(self) -> None:
        if self._wanted:
            with suppress(OSError):
                self._lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    async def _take_over(self) -> None:
        serving = False
        while not serving:
            await asyncio.sleep(RETRY_S)
            serving = await self._listen()

    async def _listen(self) -> bool:
        try:
            self._server = await asyncio.start_server(self._client, self._host, self._wanted, limit=LINE_LIMIT)
        except OSError as error:
            reason = "in use by another process" if error.errno == errno.EADDRINUSE else error.strerror
            self.trouble = f"port {self._wanted} is {reason}; metrics are served when it is free (--metrics-port)"
            return False
        self.port, self.trouble = self._server.sockets[0].getsockname()[1], ""
        self._claim()
        return True

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername") or ("",)
        connection = ReportConnection(str(address[0]), writer.transport.abort)
        try:
            async with asyncio.timeout(REQUEST_S):
                if not self._connections.enter(connection):
                    writer.write(_response(503, "too many scrapes\n"))
                    return
                async with asyncio.timeout(HEADERS_S):
                    request = await read_request(reader)
                connection.phase = ANSWERING
                answer = await self._response(request)
                connection.phase = WRITING
                writer.write(answer)
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # the scraper disconnected, was closed for another, or is too slow
        finally:
            self._connections.leave(connection)
            writer.close()

    async def _response(self, request: "ReportRequest | int") -> bytes:
        if isinstance(request, int):
            return _response(request, f"{REASONS[request]}\n")
        status, body = await self._answer(request.target)
        if request.compress and len(body) >= GZIP_MIN:
            return await asyncio.to_thread(_compressed, status, body)
        return _response(status, body)

    async def _answer(self, target: str) -> tuple[int, str]:
        path, _, query = target.partition("?")
        if path == HEALTHZ or path.startswith(f"{HEALTHZ}/"):
            return healthz_answer(path, query, self._serving())
        if path == "/metrics":
            return 200, await self._shared_page()
        return 404, "only /metrics and /healthz live here\n"

    async def _shared_page(self) -> str:
        """Return one page to all concurrent requests, since it queries every process of the plane."""
        if self._page_task is None or self._page_task.done():
            self._page_task = shared(_made(self._page), "metrics page")
        return await asyncio.shield(self._page_task)


async def _made(page: Page) -> str:
    return await page()


class ReportRequest(msgspec.Struct, frozen=True):
    """A GET request that was understood."""

    target: str
    """Path and query."""
    compress: bool = False
    """The client reads gzip, as Prometheus does."""


async def read_request(reader: asyncio.StreamReader) -> ReportRequest | int:
    """Read a GET request; return it, or the HTTP status of an error."""
    compress = False
    try:
        method, target, version = (await reader.readuntil(b"\n")).decode("ascii").split()
        if not version.startswith("HTTP/1.") or not target.startswith("/"):
            return 400
        for _ in range(HEADERS_LIMIT):
            line = (await reader.readuntil(b"\n")).strip()
            if line == b"":
                return ReportRequest(target, compress) if method == "GET" else 405
            compress = compress or bool(READS_GZIP.fullmatch(line))
    except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return 400
    return 400


def _compressed(status: int, body: str) -> bytes:
    """Return a response in gzip, at the level that takes 10 ms for a page of 1 MB and makes it a seventeenth."""
    return _head_and(status, gzip.compress(body.encode(), GZIP_LEVEL, mtime=0), "Content-Encoding: gzip\r\n")


def _response(status: int, body: str) -> bytes:
    return _head_and(status, body.encode())


def _head_and(status: int, data: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {TEXT}\r\nVary: Accept-Encoding\r\n{more}"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + data
