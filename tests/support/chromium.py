"""Debian's Chromium without a window, driven over its DevTools protocol."""

import asyncio
import base64
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.waiting import until_async

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests run as root
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    "--remote-debugging-port=0",
    "--window-size=1000,600",
)
ANSWER_S = 30.0
CODES = {"Enter": 13, "Tab": 9}


class Tab:
    """One page. `frames` is all that its WebSockets received, `faults` what its console complained about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._count = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.frames = bytearray()
        self.faults: list[str] = []

    async def run(self) -> None:
        async for message in self._socket:
            self._take(message.json())

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        answer = self._waiting[self._count] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        return await asyncio.wait_for(answer, ANSWER_S)

    async def open(self, url: str) -> None:
        for domain in ("Network", "Page", "Runtime", "Log"):
            await self.command(f"{domain}.enable")
        await self.command("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        found = await self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return found["result"]["result"].get("value")

    async def key(self, text: str) -> None:
        """Press a key, named as DevTools do, or by its character."""
        code = CODES.get(text, 0)
        pressed = {"key": text, "text": {"Enter": "\r", "Tab": ""}.get(text, text), "windowsVirtualKeyCode": code}
        await self.command("Input.dispatchKeyEvent", type="keyDown" if pressed["text"] else "rawKeyDown", **pressed)
        await self.command("Input.dispatchKeyEvent", type="keyUp", key=text, windowsVirtualKeyCode=code)

    async def receives(self, text: str, since: int = 0, timeout: float = ANSWER_S) -> None:
        await until_async(f"{text!r} on the page", lambda: text.encode() in self.frames[since:], timeout)

    async def screenshot(self) -> bytes:
        return base64.b64decode((await self.command("Page.captureScreenshot"))["result"]["data"])

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._waiting.pop(message["id"]).set_result(message)
        elif message["method"] == "Network.webSocketFrameReceived":
            frame = message["params"]["response"]
            self.frames += base64.b64decode(frame["payloadData"]) if frame["opcode"] == 2 else b""
        elif message["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.faults.append(str(message["params"]))


@asynccontextmanager
async def tab(url: str) -> AsyncIterator[Tab]:
    """Open a page in a browser of its own; skip the test before where there is none (CHROMIUM)."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="npc", ignore_cleanup_errors=True) as profile:
        quiet = asyncio.subprocess.DEVNULL
        command = (CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank")
        browser = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        try:
            async with aiohttp.ClientSession() as session:
                address = await until_async("chromium listens", lambda: _address(Path(profile)), 60)
                async with session.get(f"{address}/json") as answer:
                    page = next(each for each in await answer.json() if each["type"] == "page")
                async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    opened = Tab(socket)
                    reading = asyncio.create_task(opened.run())
                    await opened.open(url)
                    yield opened
                    reading.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):
                browser.terminate()
            await browser.wait()


def _address(profile: Path) -> str:
    try:
        port, _ = (profile / "DevToolsActivePort").read_text().splitlines()
    except (OSError, ValueError):
        return ""
    return f"http://127.0.0.1:{port}"
