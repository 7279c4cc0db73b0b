"""Watches over TLS against a bare uvloop server writing the same bytes, and what the API server does besides."""

import asyncio
import itertools
import ssl
import time
from statistics import median, quantiles

import aiohttp

from tests.bench.row import Row, at_most
from tests.bench.watch_client import Options
from tests.bench.watch_lab import (
    configmap,
    cpu_seconds,
    floor_of,
    put_all,
    received,
    resident_kb,
    watches,
)
from tests.support.apiserver_plane import Plane, running_plane

CONFIGMAPS = "/api/v1/configmaps"
FAN_OUT = ((100, 400, 100.0), (1000, 80, 20.0))
"""Watchers, events, events a second."""
RATIO_LIMIT, IDLE_LIMIT_KB, LIST_RATIO_LIMIT = 1.5, 40.0, 1.3
P50_LIMIT_MS, P99_LIMIT_MS, WRITES_LIMIT = 5.0, 25.0, 1000.0
WATCHERS, NAMESPACES, RATE, PACED = 500, 50, 200.0, 800
WRITERS, WRITING_SECONDS = 4, 3.0
PODS, LISTS = 5000, 5


def run() -> list[Row]:
    with running_plane() as plane:
        rows = []
        for count, events, rate in FAN_OUT:
            rows += fan_out(plane, count, events, rate)
        rows += latency(plane)
        rows.append(writes(plane))
        rows.append(listing(plane))
    return rows


def fan_out(plane: Plane, count: int, events: int, rate: float) -> list[Row]:
    """Server CPU per event delivered; of the larger crowd also the memory of an idle watch."""
    start = put_all(plane, [(f"/registry/configmaps/default/fan-{count}", configmap("fan"))])
    pid = plane.processes["apiserver-0"].pid
    pki = str(plane.settings.layout.pki)
    held = resident_kb(pid)
    with watches(Options(plane.port, pki, [CONFIGMAPS] * count, start)) as client:
        grown = resident_kb(pid) - held
        before, had = cpu_seconds(pid), client.ask("stats")
        pairs = [(f"/registry/configmaps/default/fan-{count}", configmap(f"fan-{count}")) for _ in range(events)]
        put_all(plane, pairs, rate)
        stats = received(client, events * count)
        ours = 1e6 * (cpu_seconds(pid) - before) / (events * count)
    size = (stats["size"] - had["size"]) // (events * count)
    floor = bare_fan_out(plane, count, events, rate, b'"type":"' + b"x" * (size - 8))
    name = f"watch: CPU per event, {count} TLS watchers"
    rows = [Row(name, ours, "us", floor, f"<= {RATIO_LIMIT} x bare", ours <= RATIO_LIMIT * floor)]
    if count >= 1000:
        rows.append(at_most("watch: memory per idle TLS watch", [grown / count], "kB", IDLE_LIMIT_KB))
    return rows


def bare_fan_out(plane: Plane, count: int, events: int, rate: float, body: bytes) -> float:
    pki = str(plane.settings.layout.pki)
    with floor_of(plane, body) as floor, watches(Options(floor.first, pki, [CONFIGMAPS] * count)) as client:
        before, began = cpu_seconds(floor.pid), time.monotonic()
        for number in range(events):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            floor.tell()
        received(client, events * count)
        return 1e6 * (cpu_seconds(floor.pid) - before) / (events * count)


def latency(plane: Plane) -> list[Row]:
    """From a write's answer to the event at each watcher of its namespace: ten of the 500 watches for each write."""
    namespaces = [f"n{number}" for number in range(NAMESPACES)]
    plane.create_namespaces(*namespaces)
    paths = [f"/api/v1/namespaces/n{number % NAMESPACES}/configmaps" for number in range(WATCHERS)]
    with watches(Options(plane.port, str(plane.settings.layout.pki), paths, _now(plane), stamps=True)) as client:
        answered = asyncio.run(_write_paced(plane))
        received(client, PACED * WATCHERS // NAMESPACES)
        arrived = client.ask("stamps")
    times = [1000 * max(0.0, at - answered[number]) for number, at in arrived]
    p99 = quantiles(times, n=100)[98]
    told = f"{int(RATE)} writes/s, {WATCHERS} watches"
    return [
        at_most(f"watch: write to event p50, {told}", [median(times)], "ms", P50_LIMIT_MS),
        at_most(f"watch: write to event p99, {told}", [p99], "ms", P99_LIMIT_MS),
    ]


def _now(plane: Plane) -> int:
    return put_all(plane, [("/registry/configmaps/default/now", configmap("now"))])


async def _write_paced(plane: Plane) -> dict[int, float]:
    answered: dict[int, float] = {}
    began = time.monotonic()

    async def write(session: aiohttp.ClientSession, number: int) -> None:
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        namespace = f"n{number % NAMESPACES}"
        data = configmap(f"paced-{number}", namespace).replace(b'"data":{', b'"data":{"stamp":"%d",' % number)
        async with session.post(f"/api/v1/namespaces/{namespace}/configmaps", data=data, headers=JSON) as answer:
            answered[number] = time.monotonic()
            assert answer.status == 201, await answer.text()

    async with plane.client() as session:
        await asyncio.gather(*(write(session, number) for number in range(PACED)))
    return answered


JSON = {"Content-Type": "application/json"}


def writes(plane: Plane) -> Row:
    """Four clients, each its next write when the last is acknowledged; the store syncs to disk before it answers."""
    done = asyncio.run(_write_busily(plane)) / WRITING_SECONDS
    name = f"apiserver: writes with {WRITERS} clients, fsync"
    return Row(name, done, "1/s", None, f">= {WRITES_LIMIT:g} 1/s", done >= WRITES_LIMIT)


async def _write_busily(plane: Plane) -> int:
    numbers, until = itertools.count(), time.monotonic() + WRITING_SECONDS
    done = 0

    async def write(session: aiohttp.ClientSession) -> None:
        nonlocal done
        while time.monotonic() < until:
            data = configmap(f"busy-{next(numbers)}", size=300)
            async with session.post("/api/v1/namespaces/default/configmaps", data=data, headers=JSON) as answer:
                assert answer.status == 201, await answer.text()
            done += 1

    async with plane.client() as session:
        await asyncio.gather(*(write(session) for _ in range(WRITERS)))
    return done


def listing(plane: Plane) -> Row:
    """A list of many pods against the same bytes from the bare server, to the same client."""
    put_all(plane, [(f"/registry/pods/default/pod-{n:05}", _pod(n)) for n in range(PODS)])
    tls = plane.tls()
    ours, body = asyncio.run(_fetch(plane.port, "/api/v1/pods", tls))
    with floor_of(plane, body) as floor:
        bare, _ = asyncio.run(_fetch(floor.first, "/body", tls))
    name = f"apiserver: list of {PODS} pods"
    return Row(name, ours, "ms", bare, f"<= {LIST_RATIO_LIMIT} x bare", ours <= LIST_RATIO_LIMIT * bare)


def _pod(number: int) -> bytes:
    return configmap(f"pod-{number:05}").replace(b'"ConfigMap"', b'"Pod"')


async def _fetch(port: int, path: str, tls: ssl.SSLContext) -> tuple[float, bytes]:
    times, body = [], b""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
        for _ in range(LISTS + 1):
            began = time.perf_counter()
            async with session.get(f"https://127.0.0.1:{port}{path}") as answer:
                body = await answer.read()
            times.append(1000 * (time.perf_counter() - began))
    return median(times[1:]), body
