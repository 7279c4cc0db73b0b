"""Many watches that come back as client-go does: at the last version they saw, to any server that lets them in."""

import asyncio
import itertools
import json
import random
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp
import yaml

from tests.support.apiserver_plane import Plane
from tests.support.connections import Connections
from tests.support.waiting import until_async


class Target(Protocol):
    """Where an API is."""

    url: str

    def tls(self) -> ssl.SSLContext: ...


class Rooted:
    """The API that a root's kubeconfig names."""

    def __init__(self, root: Path) -> None:
        config = yaml.safe_load((root / "kubeconfig").read_text())
        self.url = str(config["clusters"][0]["cluster"]["server"])
        self._pki = root / "pki"

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        return context


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
AGAIN_S = 0.02


@dataclass
class Client:
    """One watch, over all its connections."""

    rv: int
    seen: list[int] = field(default_factory=list)
    """Revisions of the events, as they came."""
    bookmarks: list[int] = field(default_factory=list)
    opened: int = 0
    relists: int = 0
    problems: list[str] = field(default_factory=list)
    ended_at: float = 0.0
    resumed_after: float = 0.0
    """Longest time without a stream."""

    def take(self, event: dict[str, object]) -> bool:
        """False when the client would have to list anew."""
        obj = event["object"]
        assert isinstance(obj, dict)
        if event["type"] == "ERROR":
            self.relists += 1
            self.problems.append(str(obj.get("message")))
            return False
        rv = int(obj["metadata"]["resourceVersion"])
        if rv <= self.rv:
            self.problems.append(f"{event['type']} {rv} after {self.rv}")
        self.rv = max(self.rv, rv)
        (self.bookmarks if event["type"] == "BOOKMARK" else self.seen).append(rv)
        return True


class Crowd:
    """`async with Crowd(planes, 200) as crowd:`; each watch takes the next plane whenever it has to open."""

    def __init__(self, planes: Sequence[Target], count: int, path: str = CONFIGMAPS, rv: int = 0) -> None:
        self.planes, self._path = planes, path
        self.clients = [Client(rv) for _ in range(count)]
        self._tls: ssl.SSLContext = planes[0].tls()
        self._tasks: list[asyncio.Task[None]] = []
        self._turns = itertools.count()

    async def __aenter__(self) -> "Crowd":
        self._connections = Connections()
        connector = aiohttp.TCPConnector(
            ssl=self._tls, limit=0, force_close=True, socket_factory=self._connections.make
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        if not self.clients[0].rv:
            version = await self.version()
            for client in self.clients:
                client.rv = version
        self._tasks = [asyncio.create_task(self._follow(client)) for client in self.clients]
        await until(lambda: all(client.opened for client in self.clients), "all watches open")
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()
        await self._connections.closed()

    async def version(self) -> int:
        async with self._session.get(self.planes[0].url + self._path, params={"limit": "1"}) as answer:
            return int((await answer.json())["metadata"]["resourceVersion"])

    async def caught_up(self, rv: int, within: float = 60.0) -> None:
        await until(lambda: all(c.seen and c.seen[-1] >= rv for c in self.clients), f"all watches at {rv}", within)

    def check(self, expected: list[int]) -> None:
        """Every watch saw exactly these, once, in order, and none had to list."""
        problems = {problem for client in self.clients for problem in client.problems}
        assert not problems, problems
        assert sum(client.relists for client in self.clients) == 0
        wrong = [client.seen for client in self.clients if client.seen != expected]
        assert not wrong, f"{len(wrong)} of {len(self.clients)} differ, such as {wrong[0]} from {expected}"

    async def _follow(self, client: Client) -> None:
        while True:
            try:
                if not await self._watch(client):
                    return
            except (aiohttp.ClientError, ConnectionError, TimeoutError, ssl.SSLError):
                pass
            client.ended_at = client.ended_at or time.monotonic()
            await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.5))

    async def _watch(self, client: Client) -> bool:
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": str(client.rv)}
        url = self.planes[next(self._turns) % len(self.planes)].url + self._path
        async with self._session.get(url, params=query) as answer:
            if answer.status != 200:
                return True
            client.opened += 1
            if client.ended_at:
                client.resumed_after = max(client.resumed_after, time.monotonic() - client.ended_at)
                client.ended_at = 0.0
            while line := await answer.content.readline():
                if not client.take(json.loads(line)):
                    return False
        return True


async def until(holds: Callable[[], object], what: str, within: float = 60.0) -> None:
    await until_async(what, holds, within)


class Churn:
    """Writes all the time, through any plane, and keeps what was acknowledged: revision by name."""

    def __init__(self, planes: Sequence[Target], prefix: str, every: float = 0.05, path: str = CONFIGMAPS) -> None:
        self._planes, self._prefix, self._every, self._path = planes, prefix, every, path
        self.acknowledged: dict[str, int] = {}
        self.unknown: set[str] = set()
        """No answer came: they may be there or not."""
        self.refused: list[str] = []
        self.slowest = 0.0

    async def __aenter__(self) -> "Churn":
        timeout = aiohttp.ClientTimeout(total=35)
        self._connections = Connections()
        connector = aiohttp.TCPConnector(ssl=self._planes[0].tls(), socket_factory=self._connections.make)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._stop.set()
        await self._task
        await self._session.close()
        await self._connections.closed()

    async def at_least(self, count: int) -> None:
        """So many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted, f"{count} more writes")

    async def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            await self._write(f"{self._prefix}-{number}")
            await asyncio.sleep(self._every)

    async def _write(self, name: str) -> None:
        kind = "ConfigMap" if self._path.endswith("configmaps") else "Secret"
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        began = time.monotonic()
        try:
            async with self._session.post(random.choice(self._planes).url + self._path, json=body) as answer:
                told = await answer.json()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            self.unknown.add(name)
            return
        self.slowest = max(self.slowest, time.monotonic() - began)
        if answer.status == 201:
            self.acknowledged[name] = int(told["metadata"]["resourceVersion"])
        else:
            self.refused.append(f"{answer.status} {told.get('message')}")
            self.unknown.add(name)


async def stored(plane: Plane) -> dict[str, int]:
    """Return the revision of each config map by name, as the store has it."""
    async with plane.client() as session, session.get(CONFIGMAPS) as answer:
        items = (await answer.json())["items"]
    return {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in items}


async def judge(plane: Plane, crowd: Crowd, churn: Churn, before: set[str]) -> None:
    """Assert that what was acknowledged is there, and that every watch saw it once and none listed again."""
    now = {name: rv for name, rv in (await stored(plane)).items() if name not in before}
    assert {name: now.get(name) for name in churn.acknowledged} == churn.acknowledged, "acknowledged and lost"
    assert now.keys() <= churn.acknowledged.keys() | churn.unknown
    await crowd.caught_up(max(now.values()))
    crowd.check(sorted(now.values()))
