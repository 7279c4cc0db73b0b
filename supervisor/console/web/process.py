"""One console process for one browser: packets of Textual's web driver on its pipes."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence

from protocols.process.tasks import awaited

DRIVER = "textual.drivers.web_driver:WebDriver"
PARENT = "NODEPLANE_CONSOLE_PARENT"
"""Variable with the pid of the server, with which its console processes die."""
READY = b"__GANGLION__\n"
START_S, END_S = 20.0, 5.0
MAX_PACKET = 16 * 1024 * 1024
SMALLEST, LARGEST = 10, 500
"""Bounds of a terminal's width and height."""


class ConsoleProcess:
    """Use it in one event loop: start(), then run() until it ends, and stop()."""

    def __init__(self, command: Sequence[str], send: Callable[[bytes], Awaitable[None]]) -> None:
        self._command = command
        self._send = send
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, width: int, height: int) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={
                **os.environ,
                "TEXTUAL_DRIVER": DRIVER,
                PARENT: str(os.getpid()),
                "TEXTUAL_COLOR_SYSTEM": "truecolor",
                "TERM": "xterm-256color",
                "COLUMNS": str(_bounded(width)),
                "ROWS": str(_bounded(height)),
            },
        )

    async def run(self) -> None:
        """Send what it draws until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        out = self._process.stdout
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(START_S):
                await out.readuntil(READY)
            while True:
                kind, size = await out.readexactly(1), int.from_bytes(await out.readexactly(4), "big")
                if size > MAX_PACKET:
                    return
                payload = await out.readexactly(size)
                if kind == b"D":
                    await self._send(payload)  # other packets would open pages or files in the browser

    async def keys(self, text: str) -> None:
        await self._write(b"D", text.encode(errors="replace"))

    async def resize(self, width: int, height: int) -> None:
        await self._meta({"type": "resize", "width": _bounded(width), "height": _bounded(height)})

    async def focus(self, focused: bool) -> None:
        await self._meta({"type": "focus" if focused else "blur"})

    async def stop(self) -> None:
        """End it, by force if it does not obey."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ConnectionError):
            await self._meta({"type": "quit"})
        drain = awaited(_drain(process))
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        finally:
            drain.cancel()

    async def _meta(self, value: dict[str, object]) -> None:
        await self._write(b"M", json.dumps(value).encode())

    async def _write(self, kind: bytes, payload: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.drain()


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read on, since a process that cannot write its last picture does not end."""
    while process.stdout and await process.stdout.read(65536):
        pass


def _bounded(cells: int) -> int:
    return max(SMALLEST, min(LARGEST, cells))
