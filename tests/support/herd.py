"""Hundreds of API watches at once, each of which resumes where it was, as clients do, and writes down what it saw."""

import asyncio
import re
import ssl
import threading
from urllib.parse import urlsplit

import yaml

from tests.support import oracle
from tests.support.plane import Plane, until

REVISION = re.compile(rb'"resourceVersion":"(\d+)"')
LINE_LIMIT = 4 * 1024 * 1024
SILENCE_S = 45.0
"""Longer than a busy machine makes any pause between two events of a test, shorter than a test."""


class Herd:
    """`with Herd(plane, path, 300) as herd:` opens them all; judge() compares each with the store's own history."""

    def __init__(self, plane: Plane, path: str, count: int) -> None:
        self._plane, self._path = plane, path
        self.start = oracle.revision(plane)
        self.seen: list[list[int]] = [[] for _ in range(count)]
        self.opened = 0
        self.refused: list[bytes] = []
        config = yaml.safe_load((plane.root / "kubeconfig").read_text())
        self._server = urlsplit(config["clusters"][0]["cluster"]["server"])
        self._context = ssl.create_default_context(cafile=str(plane.root / "pki" / "ca.crt"))
        self._context.load_cert_chain(str(plane.root / "pki" / "admin.crt"), str(plane.root / "pki" / "admin.key"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Herd":
        self._thread.start()
        until("all watches open", lambda: self.opened >= len(self.seen), 60)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def judge(self, prefix: str) -> None:
        """Nobody missed, repeated or was told to list anything. Nobody may be writing any more."""
        stop = oracle.revision(self._plane)
        expected = [revision for _, revision, _ in oracle.stored_events(self._plane, prefix, self.start, stop)]
        assert expected
        until("every watch at the store's revision", lambda: all(s and s[-1] >= expected[-1] for s in self.seen), 60)
        wrong = [number for number, seen in enumerate(self.seen) if seen != expected]
        assert not wrong, f"{len(wrong)} of {len(self.seen)} watches differ from what was stored"
        assert self.refused == []

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._follow(seen)) for seen in self.seen]
        await asyncio.to_thread(self._over.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, seen: list[int]) -> None:
        while True:
            try:
                await self._watch(seen)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.05)

    async def _watch(self, seen: list[int]) -> None:
        host, port = self._server.hostname, self._server.port
        reader, writer = await asyncio.open_connection(host, port, ssl=self._context, limit=LINE_LIMIT)
        try:
            query = f"watch=true&resourceVersion={seen[-1] if seen else self.start}"
            writer.write(f"GET {self._path}?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SILENCE_S)
            if not head.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(head.split(b"\r\n")[0].decode())
            self.opened += 1
            while (line := await asyncio.wait_for(reader.readline(), SILENCE_S)).endswith(b"\n"):
                self._take(line, seen)
        finally:
            writer.transport.abort()

    def _take(self, line: bytes, seen: list[int]) -> None:
        """Chunk sizes stand between the events, each of which is a line."""
        if line.startswith(b'{"type":"ERROR"'):
            self.refused.append(line)
        elif line.startswith(b"{") and (found := REVISION.search(line)):
            seen.append(int(found[1]))
