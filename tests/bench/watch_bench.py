"""From a write to its event."""

import asyncio
import itertools
import time
from statistics import median, quantiles

import aiohttp

from tests.bench.row import Row, at_most
from tests.bench.watch_lab import Peer, configmap, put_all, received, watches
from tests.bench.watch_line import Options
from tests.bench.write_client import written
from tests.support.apiserver_plane import Plane, running_plane

P50_LIMIT_MS, P99_LIMIT_MS = 5.0, 25.0
WATCHERS, NAMESPACES, RATE, PACED = 500, 50, 200.0, 800
WRITERS, BUSY_S, BUSY_ROUNDS = 4, 1.0, 5
ANSWERS = 1.3
"""Answers of a write that half of the events may take."""


def run_latency() -> list[Row]:
    with running_plane() as plane:
        return [*latency(plane), *behind(plane)]


def latency(plane: Plane) -> list[Row]:
    """From a write's answer to the event at each watcher of its namespace: ten of the 500 watches for each write."""
    namespaces = [f"n{number}" for number in range(NAMESPACES)]
    plane.create_namespaces(*namespaces)
    paths = [f"/api/v1/namespaces/n{number % NAMESPACES}/configmaps" for number in range(WATCHERS)]
    with watches(Options(plane.port, str(plane.settings.layout.pki), paths, 1, _now(plane), stamps=True)) as client:
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


def behind(plane: Plane) -> list[Row]:
    """From a request to its event at one watch, while clients write as fast as they are answered.

    The floor is the mean time from such a request to its answer: own writes do not wait for the watch cache.
    """
    path = ["/api/v1/namespaces/default/configmaps"]
    with watches(Options(plane.port, str(plane.settings.layout.pki), path, 1, _now(plane), stamps=True)) as client:
        _busy(plane, client)  # the first seconds are not counted: Python makes code quicker that runs often
        rounds = [_busy(plane, client) for _ in range(BUSY_ROUNDS)]
    p50, p99, floor = (median(figures) for figures in zip(*rounds, strict=True))
    name = f"{WRITERS} writers at full rate"
    return [
        Row(f"watch: request to event p50, {name}", p50, "ms", floor, f"<= {ANSWERS} x", p50 <= ANSWERS * floor),
        Row(f"watch: request to event p99, {name}", p99, "ms", floor),
    ]


NUMBERS = itertools.count()


def _busy(plane: Plane, client: Peer) -> tuple[float, float, float]:
    """Return p50 and p99 of the events and the mean of the answers, in milliseconds."""
    sent: dict[int, float] = {}

    def body() -> bytes:
        number = next(NUMBERS)
        data = configmap(f"busy-{number}", size=300).replace(b'"data":{', b'"data":{"stamp":"%d",' % number)
        sent[number] = time.monotonic()
        return data

    had = client.ask("stats")["events"]
    done = written(plane, WRITERS, BUSY_S, body)
    received(client, had + done)
    times = [1000 * (at - sent[number]) for number, at in client.ask("stamps") if number in sent]
    return median(times), quantiles(times, n=100)[98], 1000 * WRITERS * BUSY_S / done


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
