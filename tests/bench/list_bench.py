"""Long lists: as fast as writing their bytes, and without holding up the event loop."""

import asyncio
import ssl
import time
from statistics import median
from typing import Any

import aiohttp

from tests.bench.lab_apiserver import METER
from tests.bench.row import Row, at_most
from tests.bench.watch_lab import configmap, create_all, floor_of, lab_plane, until_applied
from tests.support.apiserver_plane import Plane

PODS, LISTS, RATIO_LIMIT = 10_000, 7, 1.3
MANY, PAGE, TURN_LIMIT_MS = 50_000, 500, 25.0


def run() -> list[Row]:
    with lab_plane(meter=True) as plane:
        create_all(plane, [(f"/registry/pods/default/pod-{n:05}", _pod(n)) for n in range(PODS)])
        rows = [_whole(plane)]
        create_all(plane, [(f"/registry/pods/default/pod-{n:05}", _pod(n)) for n in range(PODS, MANY)])
        return rows + _turns(plane)


def _pod(number: int) -> bytes:
    return configmap(f"pod-{number:05}").replace(b'"ConfigMap"', b'"Pod"')


def _whole(plane: Plane) -> Row:
    """A list against the same bytes from the bare server, to the same client."""
    tls = plane.tls()
    _, body = asyncio.run(_fetch([f"{plane.url}/api/v1/pods"], tls))
    with floor_of(plane, body) as floor:
        urls = [f"{plane.url}/api/v1/pods", f"https://127.0.0.1:{floor.first}/body"]
        (ours, bare), _ = asyncio.run(_fetch(urls, tls))
    name = f"list: {PODS} pods, {len(body) / 1e6:.0f} MB"
    return Row(name, ours, "ms", bare, f"<= {RATIO_LIMIT} x bare", ours <= RATIO_LIMIT * bare)


async def _fetch(urls: list[str], tls: ssl.SSLContext) -> tuple[list[float], bytes]:
    """Median times, one after the other in turns, so that other work on the machine meets both; the last body."""
    times: dict[str, list[float]] = {url: [] for url in urls}
    body = b""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
        for _ in range(LISTS + 1):
            for url in urls:
                began = time.perf_counter()
                async with session.get(url, headers={"Accept-Encoding": "identity"}) as answer:
                    body = await answer.read()
                times[url].append(1000 * (time.perf_counter() - began))
    return [median(taken[1:]) for taken in times.values()], body


def _turns(plane: Plane) -> list[Row]:
    """The longest turn of the server's event loop while a list is answered: others wait that long."""
    until_applied(plane, MANY)
    asyncio.run(_turn(plane, "/api/v1/pods"))  # encodes every object for the first time
    told = f"list: longest turn of the loop, {MANY} pods"
    ways = {"whole": {}, "gzip": {"Accept-Encoding": "gzip"}}
    rows = [at_most(f"{told}, {way}", [_turn_of(plane, headers)], "ms", TURN_LIMIT_MS) for way, headers in ways.items()]
    paged, watched = asyncio.run(_pages(plane)), asyncio.run(_watch(plane))
    rows.append(at_most(f"{told}, pages of {PAGE}", [paged], "ms", TURN_LIMIT_MS))
    return [*rows, at_most(f"{told}, to a new watch", [watched], "ms", TURN_LIMIT_MS)]


def _turn_of(plane: Plane, headers: dict[str, str]) -> float:
    return median(asyncio.run(_turn(plane, "/api/v1/pods", headers)) for _ in range(3))


async def _turn(plane: Plane, path: str, headers: dict[str, str] | None = None) -> float:
    await longest(plane)
    async with plane.client() as session, session.get(path, headers=headers or {}) as answer:
        await answer.read()
    return await longest(plane)


async def _pages(plane: Plane) -> float:
    await longest(plane)
    token, seen = "", 0
    async with plane.client() as session:
        while token or not seen:
            query: dict[str, Any] = {"limit": PAGE} | ({"continue": token} if token else {})
            async with session.get("/api/v1/pods", params=query) as answer:
                page = await answer.json()
            seen += len(page["items"])
            token = page["metadata"].get("continue", "")
    assert seen == MANY, seen
    return await longest(plane)


async def _watch(plane: Plane) -> float:
    await longest(plane)
    options = {"watch": "1", "allowWatchBookmarks": "1", "sendInitialEvents": "1"}
    query, tail = {**options, "resourceVersionMatch": "NotOlderThan"}, b""
    async with plane.client() as session, session.get("/api/v1/pods", params=query) as answer:
        while b"initial-events-end" not in tail:
            tail = tail[-64:] + await answer.content.readany()
    return await longest(plane)


async def longest(plane: Plane) -> float:
    """Milliseconds since last asked."""
    text = await plane.metrics("apiserver-0")
    return next(1000 * float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{METER} "))
