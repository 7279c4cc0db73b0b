"""Fan-out of one change to many watches, over TLS and plain, against a bare server; and what an idle watch keeps."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median

from tests.bench.list_bench import longest
from tests.bench.row import Row, at_most
from tests.bench.watch_lab import (
    TOKEN,
    Peer,
    configmap,
    cpu_seconds,
    floor_of,
    lab_plane,
    plain_plane,
    put_all,
    received,
    resident_kb,
    watches,
)
from tests.bench.watch_line import Options
from tests.support.apiserver_plane import Plane, running_plane

CONFIGMAPS = "/api/v1/configmaps"
FAN_OUT = ((100, 100, 100.0), (1000, 30, 20.0))
"""Watchers, events in a round, events a second."""
ROUNDS = 3
"""Ours and the floor take turns, so that other work on the machine meets both; medians count."""
RATIO_LIMIT = {"TLS": 1.2, "plain": 1.5}
"""The bare server has uvloop's TLS, which costs more than ours."""
IDLE, IDLE_LIMIT_KB = 2000, {"TLS": 28.0, "plain": 8.0}
WAYS = (("TLS", "", running_plane), ("plain", TOKEN, plain_plane))
"""Name, the clients' token, the plane."""
CROWD, TURN_LIMIT_MS, CHANGES = 10_000, 50.0, 5
LEFT_S = 3.0
"""In which the server has noticed that the crowd has left."""


def fan_out() -> list[Row]:
    rows = []
    for told, token, running in WAYS:
        with running() as plane:
            rows += [_fan_out(plane, told, token, *size) for size in FAN_OUT]
    return rows


def _fan_out(plane: Plane, told: str, token: str, count: int, events: int, rate: float) -> Row:
    """Server CPU per event delivered."""
    key = f"/registry/configmaps/default/fan-{count}"
    start = put_all(plane, [(key, configmap("fan"))])
    pairs = [(key, configmap(f"fan-{count}")) for _ in range(events)]
    with _watches(plane, token, plane.port, count, start) as client:
        ours = Side(plane.processes["apiserver-0"].pid, client, lambda: put_all(plane, pairs, rate))
        ours.round(events * count)
        body = b'"type":"' + b"x" * (ours.size // (events * count) - 8)
        with (
            floor_of(plane, body, "plain" if token else "") as bare,
            _watches(plane, token, bare.first, count) as listening,
        ):
            floor = Side(bare.pid, listening, lambda: _tell(bare, events, rate))
            pairs_of = [(ours.round(events * count), floor.round(events * count)) for _ in range(ROUNDS)]
    mine, least = (median(times) for times in zip(*pairs_of, strict=True))
    name = f"watch: CPU per event, {count} {told} watchers"
    limit = RATIO_LIMIT[told]
    return Row(name, mine, "us", least, f"<= {limit} x bare", mine <= limit * least)


class Side:
    """A server, who listens to it, and how it comes to a round of events."""

    def __init__(self, pid: int, client: Peer, tell: Callable[[], object]) -> None:
        self._pid, self._client, self._tell = pid, client, tell
        self.size = 0
        """Bytes in the last round."""

    def round(self, events: int) -> float:
        """CPU of the server for each event, in microseconds."""
        had, before = self._client.ask("stats"), cpu_seconds(self._pid)
        self._tell()
        stats = received(self._client, had["events"] + events)
        self.size = stats["size"] - had["size"]
        return 1e6 * (cpu_seconds(self._pid) - before) / events


def _tell(floor: Peer, events: int, rate: float) -> None:
    began = time.monotonic()
    for number in range(events):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        floor.tell()


def _watches(
    plane: Plane, token: str, port: int, count: int, start: int = 0, *, plain: bool = True
) -> AbstractContextManager[Peer]:
    """`plain`: those with a token are without TLS."""
    pki = str(plane.settings.layout.pki)
    return watches(Options(port, pki, [CONFIGMAPS], count, start, token=token, plain=plain and bool(token)))


def turn() -> list[Row]:
    """Longest turns of the server's loop, in CPU time: a change goes out to a crowd, then the crowd leaves."""
    key = "/registry/configmaps/default/fan"
    with lab_plane(meter=True) as plane:
        start = put_all(plane, [(key, configmap("fan"))])
        with _watches(plane, TOKEN, plane.port, CROWD, start, plain=False) as client:
            asyncio.run(longest(plane))
            for number in range(CHANGES):
                put_all(plane, [(key, configmap("fan"))])
                received(client, (number + 1) * CROWD)
            took = asyncio.run(longest(plane))
            client.ask("drop")
            time.sleep(LEFT_S)
            left = asyncio.run(longest(plane))
    return [
        at_most(f"watch: longest turn, a change for {CROWD} watchers", [took], "ms", TURN_LIMIT_MS),
        at_most(f"watch: longest turn, {CROWD} watchers lose their connections", [left], "ms", TURN_LIMIT_MS),
    ]


def idle() -> list[Row]:
    """Resident memory of the process, with and without so many idle watches."""
    rows = []
    for told, token, running in WAYS:
        with running() as plane:
            floor = _bare_memory(plane, token)
            start = put_all(plane, [("/registry/configmaps/default/first", configmap("first"))])
            grown = _memory(plane.processes["apiserver-0"].pid, plane, plane.port, token, start)
            rows.append(at_most(f"watch: memory per idle {told} watch", [grown], "kB", IDLE_LIMIT_KB[told], floor))
    return rows


def _memory(pid: int, plane: Plane, port: int, token: str, start: int = 0) -> float:
    """The first watch brings in what all share."""
    pki = str(plane.settings.layout.pki)
    with watches(Options(port, pki, [CONFIGMAPS], 1, start, token=token, plain=bool(token))):
        held = resident_kb(pid)
        with watches(Options(port, pki, [CONFIGMAPS], IDLE, start, token=token, plain=bool(token))):
            time.sleep(0.5)
            return (resident_kb(pid) - held) / IDLE


def _bare_memory(plane: Plane, token: str) -> float:
    with floor_of(plane, b"x", "plain" if token else "") as floor:
        return _memory(floor.pid, plane, floor.first, token)
