"""Many watches over four API server processes, one of them killed: how soon all are back, and what they missed.

And the watch cache and all API servers killed at once while another resource is written to fast: who must list again.
"""

import asyncio
import signal
import threading
import time

from tests.bench.row import Row, at_most
from tests.bench.storm_bench import storm
from tests.bench.watch_lab import TOKEN, Peer, configmap, give_token, put_all, settled, until_applied, watches
from tests.bench.watch_line import Options
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.plane import until
from tests.support.resuming import Crowd

PROCESSES, WATCHES = 4, 10_000
EVENTS, RATE = 8, 1.0
LIMIT_S, OPEN_LIMIT_S = 3.0, 5.0
PATIENCE_S = 60.0
IDLE, PASSING, PASSING_RATE = 200, 30_000, 1000.0
VICTIM = "apiserver-2"
PATH = "/api/v1/namespaces/default/configmaps"


def tokens() -> list[Row]:
    """Clients that prove themselves by token, as pods do."""
    return [*_resumed("tokens", TOKEN), *_kill_all()]


def certificates() -> list[Row]:
    """Clients that prove themselves by certificate, which costs a handshake twice as much."""
    return _resumed("certificates", "")


def _resumed(told: str, token: str) -> list[Row]:
    """Watches follow one namespace, and the writers of the storm write to another."""
    with running_plane() as plane:
        give_token(plane)
        scale(plane, PROCESSES)
        start = put_all(plane, [("/registry/configmaps/default/first", configmap("first"))])
        options = Options(plane.port, str(plane.settings.layout.pki), [PATH], WATCHES, start, True, token=token)
        began = time.monotonic()
        with watches(options) as client:
            stats = client.ask("stats")
            opened = stats["last_open"] - began
            # No server opens them sooner than the client, a process of one thread, has asked for them.
            row = at_most(f"resume: {WATCHES} watches open, {told}", [opened], "s", OPEN_LIMIT_S, stats["cpu_s"])
            return [row, *_kill_one(plane, client, told), *storm(plane, client, WATCHES, told)]


def scale(plane: Plane, processes: int) -> None:
    """Start API servers until there are so many, all with the present state."""
    names = [name for n in range(processes) if (name := f"apiserver-{n}") not in plane.processes]
    for name in names:
        plane.spawn(name)
    for name in names:
        until_applied(plane, 0, name)


def _kill_all() -> list[Row]:
    """Idle watches; more writes pass than a restarted watch cache reads back, and go on while all are away."""
    with running_plane() as plane:
        return asyncio.run(_double_kill(plane))


async def _double_kill(plane: Plane) -> list[Row]:
    pairs = [(f"/registry/secrets/default/s-{number % 100}", configmap("s")) for number in range(PASSING)]
    async with Crowd([plane], IDLE) as crowd:
        began = time.monotonic()
        writing = asyncio.create_task(asyncio.to_thread(put_all, plane, pairs, PASSING_RATE))
        await asyncio.sleep(PASSING / PASSING_RATE * 0.8)
        for name in ("watchcache", "apiserver-0"):
            plane.kill(name, signal.SIGKILL)
        for name in ("watchcache", "apiserver-0"):
            plane.spawn(name)
        await writing
        rate = PASSING / (time.monotonic() - began)
        last = [("/registry/configmaps/default/last", configmap("last"))]
        await crowd.caught_up(await asyncio.to_thread(put_all, plane, last))
        lists = sum(client.relists for client in crowd.clients)
        away = max(client.resumed_after for client in crowd.clients)
    return [
        Row("resume.double: writes while watch cache and API server die", rate, "1/s"),
        Row("resume.double: longest time without a stream", away, "s"),
        Row(f"resume.double: lists again of {IDLE} idle watches", lists, "", target="0", ok=not lists),
    ]


def _kill_one(plane: Plane, client: Peer, how: str) -> list[Row]:
    """Writes go on before, during and after."""
    pairs = [(f"/registry/configmaps/default/c-{number}", configmap(f"c-{number}")) for number in range(EVENTS)]
    writing = threading.Thread(target=put_all, args=(plane, pairs, RATE))
    writing.start()
    time.sleep(1)
    killed = time.monotonic()
    plane.kill(VICTIM, signal.SIGKILL)
    writing.join()
    stats = until("all watches are back", lambda: settled(client, WATCHES, EVENTS * WATCHES), PATIENCE_S, every=0.1)
    told = f"{WATCHES} watches, {PROCESSES} processes, {how}"
    off = abs(stats["events"] - EVENTS * WATCHES)
    return [
        at_most(f"resume after a kill: {told}", [stats["last_open"] - killed], "s", LIMIT_S),
        Row(f"resume: watches moved, {how}", stats["lost"], "", target="> 0", ok=stats["lost"] > 0),
        Row(f"resume: refused, to be listed again, {how}", stats["errors"], "", target="0", ok=not stats["errors"]),
        Row(f"resume: events missed or repeated, {how}", off, "", target="0", ok=not off),
    ]
