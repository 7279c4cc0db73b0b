"""One user with many connections, in a process of its own: each lists again as soon as it is answered.

`python -m tests.support.hog URL PATH CONNECTIONS USER CA CERT KEY` prints `hogging` once it had as many answers as
connections, and ends when its standard input does, with one line of JSON: how often each status came, how long answers
200 took.
"""

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgspec

from tests.support.apiserver_plane import Plane

REPOSITORY = Path(__file__).resolve().parents[2]


class Told(msgspec.Struct):
    """`retry_after` of all 429, `reasons` of their bodies."""

    statuses: dict[int, int]
    seconds: list[float]
    retry_after: set[str]
    reasons: set[str]


class Hog:
    """Its process, once all connections are busy; `told` is there after the block."""

    told: Told


@contextlib.contextmanager
def hogging(plane: Plane, path: str, connections: int, user: str) -> Iterator[Hog]:
    """A hog as long as the block runs; the admin's certificate impersonates `user`."""
    layout = plane.settings.layout
    files = [str(layout.ca_cert), *map(str, layout.client_cert("admin"))]
    command = [sys.executable, "-m", "tests.support.hog", plane.url, path, str(connections), user, *files]
    hog = Hog()
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hogging\n"
        yield hog
        out, _ = process.communicate(timeout=120)
        hog.told = msgspec.json.decode(out, type=Told)
    finally:
        process.kill()
        process.communicate()


async def _hammer(session: aiohttp.ClientSession, path: str, user: str, told: Told, connections: int) -> None:
    headers = {"Impersonate-User": user, "Accept-Encoding": "identity"}
    while True:
        began = time.monotonic()
        async with session.get(path, headers=headers) as answer:
            body = b""
            async for part in answer.content.iter_any():
                body = part if answer.status != 200 else b""
        told.statuses[answer.status] = told.statuses.get(answer.status, 0) + 1
        if sum(told.statuses.values()) == connections:
            print("hogging", flush=True)
        if answer.status == 200:
            told.seconds.append(time.monotonic() - began)
        else:
            told.retry_after.add(answer.headers.get("Retry-After", ""))
            told.reasons.add(json.loads(body)["reason"])
            await asyncio.sleep(0.2)


async def _main(url: str, path: str, connections: int, user: str, tls: ssl.SSLContext) -> None:
    told = Told({}, [], set(), set())
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:
        tasks = [asyncio.create_task(_hammer(session, path, user, told, connections)) for _ in range(connections)]
        over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        ended, _ = await asyncio.wait((*tasks, over), return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            if fault := task.exception():
                print(repr(fault), file=sys.stderr, flush=True)
                os._exit(1)  # not held up by the thread that reads
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    _url, _path, _connections, _user, _ca, _cert, _key = sys.argv[1:]
    _tls = ssl.create_default_context(cafile=_ca)
    _tls.load_cert_chain(_cert, _key)
    asyncio.run(_main(_url, _path, int(_connections), _user, _tls))
