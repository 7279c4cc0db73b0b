"""Fan-out of one change to many watches, over TLS and plain, against a bare server; and what an idle watch keeps."""

import time

from tests.bench.row import Row, at_most
from tests.bench.watch_client import Options
from tests.bench.watch_lab import (
    TOKEN,
    configmap,
    cpu_seconds,
    floor_of,
    plain_plane,
    put_all,
    received,
    resident_kb,
    watches,
)
from tests.support.apiserver_plane import Plane, running_plane

CONFIGMAPS = "/api/v1/configmaps"
FAN_OUT = ((100, 400, 100.0), (1000, 80, 20.0))
"""Watchers, events, events a second."""
RATIO_LIMIT = 1.5
IDLE, IDLE_LIMIT_KB = 2000, {"TLS": 40.0, "plain": 8.0}


def fan_out() -> list[Row]:
    rows = []
    for told, token, running in (("TLS", "", running_plane), ("plain", TOKEN, plain_plane)):
        with running() as plane:
            rows += [_fan_out(plane, told, token, *size) for size in FAN_OUT]
    return rows


def _fan_out(plane: Plane, told: str, token: str, count: int, events: int, rate: float) -> Row:
    """Server CPU per event delivered."""
    key = f"/registry/configmaps/default/fan-{count}"
    start = put_all(plane, [(key, configmap("fan"))])
    pid = plane.processes["apiserver-0"].pid
    pki = str(plane.settings.layout.pki)
    with watches(Options(plane.port, pki, [CONFIGMAPS], count, start, token=token, plain=bool(token))) as client:
        before, had = cpu_seconds(pid), client.ask("stats")
        put_all(plane, [(key, configmap(f"fan-{count}")) for _ in range(events)], rate)
        stats = received(client, events * count)
        ours = 1e6 * (cpu_seconds(pid) - before) / (events * count)
    size = (stats["size"] - had["size"]) // (events * count)
    floor = _bare(plane, token, (count, events, rate), b'"type":"' + b"x" * (size - 8))
    name = f"watch: CPU per event, {count} {told} watchers"
    return Row(name, ours, "us", floor, f"<= {RATIO_LIMIT} x bare", ours <= RATIO_LIMIT * floor)


def _bare(plane: Plane, token: str, size: tuple[int, int, float], body: bytes) -> float:
    count, events, rate = size
    pki = str(plane.settings.layout.pki)
    options = "plain" if token else ""
    with (
        floor_of(plane, body, options) as floor,
        watches(Options(floor.first, pki, [CONFIGMAPS], count, token=token, plain=bool(token))) as client,
    ):
        before, began = cpu_seconds(floor.pid), time.monotonic()
        for number in range(events):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            floor.tell()
        received(client, events * count)
        return 1e6 * (cpu_seconds(floor.pid) - before) / (events * count)


def idle() -> list[Row]:
    """Resident memory of the process, with and without so many idle watches."""
    rows = []
    for told, token, running in (("TLS", "", running_plane), ("plain", TOKEN, plain_plane)):
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
