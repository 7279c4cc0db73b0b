"""`nodeplane console --web`: the same screens in a browser, on loopback, for who has the printed URL."""

import asyncio
import contextlib
import importlib.resources
import signal
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import WSMsgType, web

from protocols.process.tasks import awaited, cancel, shared
from protocols.serving.server_log import server_logger
from supervisor.base.errors import PortTaken
from supervisor.console.web.access import AccessVerdict, ConsoleAccess
from supervisor.console.web.process import ConsoleProcess

LOOPBACK = "127.0.0.1"
MAX_SESSIONS = 4
FULL = f"{MAX_SESSIONS} pages are open already, and each runs a console; close one, then reload this page\n"
MAX_MESSAGE = 64 * 1024
HEARTBEAT_S = 15.0
SHUTDOWN_S = 2.0
"""Longest time that open requests may take once the server ends."""
FILES = {
    "textual.js": ("js/textual.js", "text/javascript"),
    "xterm.css": ("css/xterm.css", "text/css"),
    "mono.ttf": ("fonts/RobotoMono-VariableFont_wght.ttf", "font/ttf"),
}
"""Served files of textual-serve: the terminal of the browser."""
STYLE = """
@font-face { font-family: "Roboto Mono"; src: url("/static/mono.ttf"); }
html, body { margin: 0; height: 100%; background: #000; color: #ddd; font-family: "Roboto Mono", monospace; }
.textual-terminal { width: 100vw; height: 100vh; }
#ended { display: none; padding: 2em; }
body.-closed #ended { display: block; }
body.-closed .textual-terminal { display: none; }
"""
SCRIPT = """
"use strict";
// When its size changes, the terminal measures its characters after it has chosen rows and columns by the old measure:
// that of a font that was not loaded yet, or of another zoom. A second fit uses the new one.
const fit = () => setTimeout(() => window.onresize && window.onresize(), 100);
window.addEventListener("resize", fit);
// keys go to the terminal without a click
const looking = setInterval(() => {
    const keys = document.querySelector(".xterm-helper-textarea");
    if (keys) {
        keys.focus();
        clearInterval(looking);
    }
}, 50);
"""
OURS = {"page.css": (STYLE, "text/css"), "page.js": (SCRIPT, "text/javascript")}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>nodeplane console</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/xterm.css"><link rel="stylesheet" href="/static/page.css">
<script src="/static/textual.js"></script><script src="/static/page.js"></script></head>
<body><p id="ended">The console ended. Reload the page to open it again.</p>
<div id="terminal" class="textual-terminal" data-session-websocket-url="ws://{host}/ws" data-font-size="{size}"></div>
</body></html>
"""
REFUSALS = {
    AccessVerdict.UNKNOWN: (
        "open the URL that `nodeplane console --web` printed; it works once, a new start prints another"
    ),
    AccessVerdict.FOREIGN: "this server answers only to its own pages, at 127.0.0.1 or localhost",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebConsole:
    """The server. `command` starts a console process, as arguments of the interpreter."""

    def __init__(self, command: Sequence[str], port: int = 0) -> None:
        self._command = command
        self._port = port
        self._sessions = 0
        self._ending: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self.access = ConsoleAccess(port)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}/?token={self.access.token}"

    async def start(self) -> None:
        """Start to listen. Raises PortTaken."""
        app = web.Application(middlewares=[self._guard])
        app.add_routes([web.get("/", self._page), web.get("/ws", self._socket), web.get("/static/{name}", self._file)])
        self._runner = web.AppRunner(app, access_log=None, logger=server_logger(), shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, self._port)
        try:
            await site.start()
        except OSError as error:
            raise PortTaken(f"cannot listen on {LOOPBACK}:{self._port}: {error.strerror}; use another --port") from None
        self._port = self._runner.addresses[0][1]
        self.access = ConsoleAccess(self._port)

    async def close(self) -> None:
        """Stop listening; return when every console process has ended."""
        if self._runner:
            await self._runner.cleanup()
        await asyncio.gather(*self._ending)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Judge every request before its handler runs."""
        verdict = self._judge(request)
        if verdict is AccessVerdict.WELCOME:
            answer: web.StreamResponse = web.Response(status=verdict.value, headers={"Location": "/"})
            answer.set_cookie(self.access.cookie, self.access.session, httponly=True, samesite="Strict", path="/")
        elif verdict is AccessVerdict.ALLOWED:
            answer = await handler(request)
        else:
            answer = web.Response(status=verdict.value, text=REFUSALS[verdict] + "\n")
        if not answer.prepared:
            answer.headers.update(self._headers())
        return answer

    def _judge(self, request: web.Request) -> AccessVerdict:
        host = request.headers.get("Host", "")
        if request.path == "/ws":
            return self.access.socket(host, request.headers.get("Origin", ""), request.cookies)
        return self.access.page(host, request.query.get("token"), request.cookies)

    def _headers(self) -> dict[str, str]:
        sockets = " ".join(f"ws://{name}:{self._port}" for name in (LOOPBACK, "localhost"))
        policy = {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self' 'unsafe-inline'",  # the terminal writes its sizes and colours into style elements
            "font-src": "'self'",
            "img-src": "'self' data:",
            "connect-src": f"'self' {sockets}",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
        return {
            "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }

    async def _page(self, request: web.Request) -> web.Response:
        if self._sessions >= MAX_SESSIONS:
            return web.Response(status=429, text=FULL)
        size = request.query.get("fontsize", "")
        shown = size if size in map(str, range(6, 41)) else "15"
        return web.Response(text=PAGE.format(host=request.headers["Host"], size=shown), content_type="text/html")

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name in OURS:
            text, kind = OURS[name]
            return web.Response(text=text, content_type=kind)
        if name not in FILES:
            raise web.HTTPNotFound
        path, kind = FILES[name]
        asset = importlib.resources.files("textual_serve").joinpath("static", path)
        return web.Response(body=await asyncio.to_thread(asset.read_bytes), content_type=kind)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if self._sessions >= MAX_SESSIONS:
            return web.Response(status=429, text=FULL)
        self._sessions += 1
        try:
            return await self._session(request)
        finally:
            self._sessions -= 1

    async def _session(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE)
        await socket.prepare(request)
        process = ConsoleProcess(self._command, socket.send_bytes)
        await process.start(_cells(request.query.get("width"), 80), _cells(request.query.get("height"), 24))
        drawing = awaited(_draw(process, socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await _obey(process, socket, message)
        finally:
            ending = shared(_end(process, drawing), "console end")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.shield(ending)  # a server that shuts down cancels its requests
        return socket


async def _draw(process: ConsoleProcess, socket: web.WebSocketResponse) -> None:
    try:
        await process.run()
    finally:
        await socket.close()


async def _end(process: ConsoleProcess, drawing: asyncio.Task[None]) -> None:
    await cancel(drawing)
    await process.stop()


async def _obey(process: ConsoleProcess, socket: web.WebSocketResponse, message: object) -> None:
    """Carry out a message of the page; whatever is none of its messages is ignored."""
    try:
        kind, *rest = message.json()  # type: ignore[attr-defined]  # aiohttp's message, which is generic
        value = rest[0] if rest else None
    except (ValueError, TypeError):
        return
    if kind == "stdin" and isinstance(value, str):
        await process.keys(value)
    elif kind == "resize" and isinstance(value, dict):
        await process.resize(_cells(value.get("width"), 80), _cells(value.get("height"), 24))
    elif kind in ("focus", "blur"):
        await process.focus(kind == "focus")
    elif kind == "ping" and isinstance(value, str):
        await socket.send_json(["pong", value[:32]])


def _cells(value: object, default: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return default


def serve(command: Sequence[str], port: int) -> None:
    """Serve until SIGINT or SIGTERM. Raises PortTaken."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(WebConsole(command, port)))


async def _serve(server: WebConsole) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await server.start()
    try:
        print(f"open this once, in a browser on this machine:\n  {server.url}\nCtrl-C ends it", flush=True)
        await ended.wait()
    finally:
        await server.close()
