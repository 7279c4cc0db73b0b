"""Many watches from one process: counts what arrives and reads next to nothing of it.

Driven by lines on stdin, answers one JSON line each: `stats`, `stamps`. Ends when stdin does.
"""

import asyncio
import json
import re
import resource
import ssl
import sys
import time
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

EVENT = b'"type":"'
REVISION = b'"resourceVersion":"'
STAMP = re.compile(rb'"stamp":"(\d+)"')
TOGETHER = 50
AGAIN_SECONDS = 0.05


class Options(msgspec.Struct, frozen=True):
    port: int
    pki: str
    paths: list[str]
    """One watch each, or `times`."""
    times: int = 1
    version: int = 0
    resume: bool = False
    """Come back after a lost connection, from the last revision seen."""
    stamps: bool = False
    token: str = ""
    """In place of a client certificate."""
    plain: bool = False
    """Without TLS."""


class Tally:
    def __init__(self) -> None:
        self.events = 0
        self.size = 0
        self.opened = 0
        self.lost = 0
        self.errors = 0
        self.stamps: list[tuple[int, float]] = []
        self.last_open = 0.0


class Watch(asyncio.Protocol):
    def __init__(self, client: "Client", path: str, version: int) -> None:
        self._client, self._path, self.version = client, path, version
        self._tail = b""
        self._begun = False
        self.opened = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sender = cast(asyncio.WriteTransport, transport)
        query = f"watch=true&resourceVersion={self.version}" if self.version else "watch=true"
        token = self._client.options.token
        proof = f"Authorization: Bearer {token}\r\n" if token else ""
        sender.write(f"GET {self._path}?{query} HTTP/1.1\r\nHost: localhost\r\n{proof}\r\n".encode())

    def data_received(self, data: bytes) -> None:
        tally = self._client.tally
        if not self._begun:
            self._begin(data)
        seen = self._tail + data
        tally.events += seen.count(EVENT)
        tally.size += len(data)
        self._tail = seen[1 - len(EVENT) :]
        if self._client.options.stamps:
            now = time.monotonic()
            tally.stamps += [(int(number), now) for number in STAMP.findall(data)]
        if self._client.options.resume:
            self._remember(data)

    def _begin(self, data: bytes) -> None:
        self._begun = True
        tally = self._client.tally
        tally.opened += 1
        tally.last_open = time.monotonic()
        tally.errors += not data.startswith(b"HTTP/1.1 200") or b'"type":"ERROR"' in data
        self.opened.set_result(None)

    def _remember(self, data: bytes) -> None:
        place = data.rfind(REVISION)
        if place >= 0:
            place += len(REVISION)
            self.version = int(data[place : data.index(b'"', place)])

    def connection_lost(self, error: Exception | None) -> None:
        self._client.tally.lost += 1
        if not self.opened.done():
            self.opened.set_result(None)
        if self._client.options.resume:
            self._client.again(self._path, self.version)


class Client:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.tally = Tally()
        self._tasks: set[asyncio.Task[None]] = set()
        pki = Path(options.pki)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The server's certificate is not looked at: what that costs a client is not what is measured.
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if not options.token:
            tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._tls: dict[str, Any] = {} if options.plain else {"ssl": tls, "server_hostname": "localhost"}
        self._gate = asyncio.Semaphore(TOGETHER)

    async def open_all(self) -> None:
        await asyncio.gather(
            *(self.open(path, self.options.version) for path in self.options.paths * self.options.times)
        )

    async def open(self, path: str, version: int) -> None:
        async with self._gate:
            await (await self._connect(path, version)).opened

    async def _connect(self, path: str, version: int) -> Watch:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, watch = await loop.create_connection(
                    lambda: Watch(self, path, version), "127.0.0.1", self.options.port, **self._tls
                )
                return watch
            except OSError:
                await asyncio.sleep(AGAIN_SECONDS)

    def again(self, path: str, version: int) -> None:
        task = asyncio.get_running_loop().create_task(self.open(path, version))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def answer(self, word: str) -> Any:
        tally = self.tally
        if word == "stamps":
            return tally.stamps
        names = ("events", "size", "opened", "lost", "errors", "last_open")
        return {name: getattr(tally, name) for name in names}


async def serve(options: Options) -> None:
    client = Client(options)
    await client.open_all()
    print(json.dumps(client.answer("stats")), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        print(json.dumps(client.answer(line.decode().strip())), flush=True)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(serve(msgspec.json.decode(sys.argv[1], type=Options)))
