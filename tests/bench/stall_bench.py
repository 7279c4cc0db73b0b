"""Ten ordinary clients beside every attack on the event loop, and beside one user with 30 connections.

The floor is the same clients on the same plane without an attack, before. Turns are CPU seconds of the loop's thread:
what the machine does besides is not the server's.
"""

import asyncio
import http.client
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import aiohttp

from tests.bench.beside import p99
from tests.bench.list_bench import longest
from tests.bench.row import Row
from tests.bench.watch_lab import configmap, create_all, lab_plane, until_applied
from tests.support.apiserver_plane import Plane
from tests.support.hog import hogging
from tests.support.stall_attacks import ATTACKS, NAMESPACE, Attack, Sent

TURN_LIMIT_MS, OTHERS_LIMIT_MS = 50.0, 250.0
CLIENTS, QUIET_S = 10, 6.0
PAUSE_S = 0.05
"""Between two requests of an ordinary client."""
SHORTEST_S = 1.0
"""The others are measured for this long beside each attack, though its answer may come sooner."""
HOG_CONNECTIONS, HOG_OBJECTS, HOG_S = 30, 3000, 8.0
LISTED = "/api/v1/namespaces/default/pods"
READY_S, WARM_S = 60.0, 1.0
ATTACKED = len(ATTACKS)


class Ordinary:
    """Clients that read, write and watch; `taken` has the milliseconds of each answer since the last `begin`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._taken: list[float] = []
        self.failed = 0

    @contextmanager
    def measured(self) -> Iterator[list[float]]:
        self._taken = []
        yield self._taken

    async def run(self, number: int, over: asyncio.Event) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        headers = {"Impersonate-User": f"user-{number}"}
        async with self._plane.client() as session:
            watch = asyncio.create_task(self._watch(session, f"{path}?watch=1", headers))
            name = f"ordinary-{number}"
            await self._timed(session, "POST", path, headers, name)
            while not over.is_set():
                await self._timed(session, "GET", f"{path}/{name}", headers)
                await self._timed(session, "PUT", f"{path}/{name}", headers, name)
                await asyncio.sleep(PAUSE_S)
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _timed(
        self, session: aiohttp.ClientSession, method: str, path: str, headers: dict[str, str], name: str = ""
    ) -> None:
        body = {"metadata": {"name": name}, "data": {"at": str(time.time())}} if name else None
        began = time.perf_counter()
        async with session.request(method, path, json=body, headers=headers) as answer:
            await answer.read()
        self._taken.append(1000 * (time.perf_counter() - began))
        self.failed += answer.status >= 400 and answer.status != 409

    async def _watch(self, session: aiohttp.ClientSession, path: str, headers: dict[str, str]) -> None:
        async with session.get(path, headers=headers) as answer:
            async for _ in answer.content.iter_any():
                pass


def fairness() -> list[Row]:
    with _prepared_plane() as plane:
        return asyncio.run(_fairness(plane))


def attacks() -> list[Row]:
    with _prepared_plane() as plane:
        for attack in ATTACKS[:ATTACKED]:
            _prepare(plane, attack)
        return asyncio.run(_attacks(plane))


@contextmanager
def _prepared_plane() -> Iterator[Plane]:
    """Everybody may use config maps and pods, of which there are HOG_OBJECTS."""
    with lab_plane(meter=True) as plane:
        plane.create_namespaces(NAMESPACE)
        plane.kubectl("create", "clusterrole", "free", "--verb=*", "--resource=configmaps,pods")
        plane.kubectl("create", "clusterrolebinding", "free", "--clusterrole=free", "--group=system:authenticated")
        create_all(plane, [(f"/registry/pods/default/p-{n}", _pod(f"p-{n}")) for n in range(HOG_OBJECTS)])
        until_applied(plane, HOG_OBJECTS)
        yield plane


def _prepare(plane: Plane, attack: Attack) -> None:
    for sent in attack.sent_before():
        assert _play(plane, sent) in (201, 409), attack.name
    deadline = time.monotonic() + READY_S
    while attack.ready and _play(plane, Sent("GET", attack.ready), attack.user) != 200:
        assert time.monotonic() < deadline, attack.name
        time.sleep(0.05)


def _play(plane: Plane, sent: Sent, user: str = "admin") -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", plane.port, timeout=120, context=plane.tls(user))
    try:
        connection.request(sent.method, sent.path, sent.body or None, sent.all_headers())
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return 0  # the server closed before all was sent, or was ended
    finally:
        connection.close()


async def _attacks(plane: Plane) -> list[Row]:
    ordinary, over = Ordinary(plane), asyncio.Event()
    clients = [asyncio.create_task(ordinary.run(number, over)) for number in range(CLIENTS)]
    await asyncio.sleep(WARM_S)
    floor_turn, floor = await _quiet(plane, ordinary)
    turns: dict[str, float] = {}
    others: dict[str, list[float]] = {}
    for attack in ATTACKS[:ATTACKED]:
        sent = await asyncio.to_thread(attack.sent)
        await longest(plane)
        with ordinary.measured() as taken:
            status, _ = await asyncio.gather(
                asyncio.to_thread(_play, plane, sent, attack.user), asyncio.sleep(SHORTEST_S)
            )
        turns[attack.name], others[attack.name] = await longest(plane), list(taken)
        print(_told(attack.name, status, turns[attack.name], others[attack.name]), file=sys.stderr)
    over.set()
    await asyncio.gather(*clients)
    every = [each for taken in others.values() for each in taken]
    worst = max(turns, key=turns.__getitem__)
    beside = f"beside {ATTACKED} attacks"
    return [
        _limited(f"stall: longest turn, {worst}"[:62], turns[worst], floor_turn, TURN_LIMIT_MS),
        _limited(f"stall: others' p99 {beside}", p99(every), p99(floor), OTHERS_LIMIT_MS),
        _none_failed(beside, ordinary.failed),
    ]


def _limited(name: str, value: float, floor: float, limit: float) -> Row:
    return Row(name, value, "ms", floor, f"<= {limit:g} ms", value <= limit)


def _none_failed(beside: str, failed: int) -> Row:
    return Row(f"stall: others' failures {beside}", failed, "", None, "0", not failed)


async def _quiet(plane: Plane, ordinary: Ordinary) -> tuple[float, list[float]]:
    await longest(plane)
    with ordinary.measured() as taken:
        await asyncio.sleep(QUIET_S)
    return await longest(plane), list(taken)


async def _fairness(plane: Plane) -> list[Row]:
    ordinary, over = Ordinary(plane), asyncio.Event()
    clients = [asyncio.create_task(ordinary.run(number, over)) for number in range(CLIENTS)]
    await asyncio.sleep(WARM_S)
    floor_turn, floor = await _quiet(plane, ordinary)
    hog = hogging(plane, LISTED, HOG_CONNECTIONS, "hog")
    told = await asyncio.to_thread(hog.__enter__)
    await longest(plane)
    with ordinary.measured() as taken:
        await asyncio.sleep(HOG_S)
    seconds = list(taken)
    turn = await longest(plane)
    await asyncio.to_thread(hog.__exit__, None, None, None)
    over.set()
    await asyncio.gather(*clients)
    beside = f"beside a user with {HOG_CONNECTIONS} connections"
    return [
        Row(f"stall: others' p50 {beside}", median(seconds), "ms", median(floor)),
        _limited(f"stall: others' p99 {beside}", p99(seconds), p99(floor), OTHERS_LIMIT_MS),
        _limited(f"stall: longest turn {beside}", turn, floor_turn, TURN_LIMIT_MS),
        Row("stall: that user's p50", 1000 * median(told.told.seconds), "ms"),
        _none_failed(beside, ordinary.failed),
    ]


def _pod(name: str) -> bytes:
    return configmap(name).replace(b'"ConfigMap"', b'"Pod"')


def _told(name: str, status: int, turn: float, taken: list[float]) -> str:
    longest = max(taken, default=math.inf)
    return f"stall: {name}: {status}, turn {turn:.0f} ms, others' p99 {p99(taken):.0f} ms, longest {longest:.0f} ms"
