"""The health of this node as kubelet's /healthz shows it, and the plain HTTP server for it on loopback.

`device-plugin` and `pod-resources` are the sockets that plugins and agents need: the node is not healthy before both
accept connections.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from protocols.serving.connection import BoundedServer
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits

HEALTHZ = "healthz"
LOOPBACK = "127.0.0.1"
RETRY_S = 5.0
CONNECT_S = 1.0
LIMITS = UnauthenticatedLimits(in_all=512)
"""All callers have one address. Beyond the limit a new one waits until the oldest connection is a second old."""
Check = Callable[[], Awaitable[bool]]
log = logging.getLogger("podworker")


class NodeHealth:
    """`checks`: whether each part is healthy, by name, in the order of the page."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    async def answer(self, path: Sequence[str], verbose: bool) -> tuple[int, str]:
        """Return status and body of /healthz or, with the `path` of a part below it, of /healthz/PART."""
        part = "/".join(path)
        if path and part not in self._checks:
            return 404, f"no health check {part} here; there are {' '.join(self._checks)}\n"
        names = [part] if part else list(self._checks)
        results = await asyncio.gather(*(self._checks[name]() for name in names))
        healthy = dict(zip(names, results, strict=True))
        if all(results) and not verbose:
            return 200, "ok"
        lines = [f"[+]{name} ok" if well else f"[-]{name} failed: reason withheld" for name, well in healthy.items()]
        verdict = f"healthz check {'passed' if all(results) else 'failed'}"
        return 200 if all(results) else 500, "\n".join((*lines, verdict, ""))


def node_health(complete: Callable[[], bool], plugins: Path, pod_resources: Path) -> NodeHealth:
    """Return the node's checks, by kubelet's names for them.

    `complete` returns True once all sources of pods have been read; somebody must listen on the sockets at the paths.
    """

    async def ping() -> bool:
        return True

    async def synced() -> bool:
        return complete()

    return NodeHealth(
        {
            "ping": ping,
            "syncloop": synced,
            "device-plugin": lambda: listening(plugins),
            "pod-resources": lambda: listening(pod_resources),
        }
    )


async def listening(path: Path) -> bool:
    """Return True if a process accepts connections on a unix socket."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_unix_connection(str(path))
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


class HealthzServer:
    """Plain HTTP on loopback, without authentication: it shows names of checks only, as kubelet's does."""

    def __init__(self, health: NodeHealth, port: int) -> None:
        self._health = health
        self._port = port
        self._server = BoundedServer(self._answer, authenticated_timeout=10.0, access_log=None)
        self._runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=1.0)
        self._listener: Listener | None = None

    async def run(self) -> None:
        """Listen; retry a port that another process has, such as a real kubelet."""
        if not self._port:
            return
        await self._runner.setup()
        logged = False
        while not self._listen():
            if not logged:
                log.warning("healthz not served: port in use, it is retried port=%d flag=--healthz-port", self._port)
            logged = True
            await asyncio.sleep(RETRY_S)

    def _listen(self) -> bool:
        options = ListenerOptions(LOOPBACK, self._port, None, self._server)
        listener = Listener(options, UnauthenticatedConnections(LIMITS))
        try:
            listener.start()
        except OSError:
            return False
        self._listener = listener
        return True

    @property
    def evicted(self) -> int:
        """Connections that were ended since there were too many."""
        return self._listener.evicted if self._listener else 0

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        first, *rest = request.path[1:].split("/")
        if first != HEALTHZ:
            return web.Response(text=f"only /{HEALTHZ} lives here; metrics are at the node endpoint\n", status=404)
        if request.method not in ("GET", "HEAD"):
            return web.Response(text="use GET\n", status=405)
        status, text = await self._health.answer(rest, "verbose" in request.query)
        return web.Response(text=text, status=status)
