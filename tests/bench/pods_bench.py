"""A node filled with pods: from the first one's creation until all of them run, and until all are gone again.

The CPU is that of all processes of the plane without the pods' own, from the creation until SETTLED_S after the end.
"""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from protocols.kinds.table import PODS
from tests.bench.pods_load import HOLLOW, client_of, sleeping_pod
from tests.bench.row import Row, at_most
from tests.bench.watch_lab import cpu_seconds
from tests.support.plane import Plane, until
from tests.support.watchers import ApiWatcher

COUNT = 110
"""What a node takes."""
WRITERS = 8
PATIENCE_S = 120.0
SETTLED_S = 1.0
"""In which events and shims have come to rest."""
RUNNING_LIMIT_S, GONE_LIMIT_S = 15.0, 15.0
START_LIMIT_MS, END_LIMIT_MS = 50.0, 50.0


class Turn(NamedTuple):
    """Seconds until all pods run, or are gone, and milliseconds of CPU for each."""

    seconds: float
    cpu_ms: float


def fill() -> list[Row]:
    """Pods of one sleeping process each, then simulated ones; floor: the same processes started with nothing around."""
    with Plane("--store-sync", "full") as plane:
        watcher = ApiWatcher(plane, "/api/v1/pods")
        real = _round(plane, watcher, "real", {})
        hollow = _round(plane, watcher, "hollow", HOLLOW)
        watcher.close()
    return [
        at_most(f"{COUNT} pods from 0 to Running", [real[0].seconds], "s", RUNNING_LIMIT_S, _bare()),
        at_most("CPU of the whole plane for a pod's start", [real[0].cpu_ms], "ms", START_LIMIT_MS),
        at_most(f"{COUNT} pods deleted to gone", [real[1].seconds], "s", GONE_LIMIT_S),
        at_most("CPU of the whole plane for a pod's end", [real[1].cpu_ms], "ms", END_LIMIT_MS),
        at_most(f"{COUNT} hollow pods from 0 to Running", [hollow[0].seconds], "s", RUNNING_LIMIT_S),
        at_most("CPU of the whole plane for a hollow pod's start", [hollow[0].cpu_ms], "ms", START_LIMIT_MS),
    ]


def _round(plane: Plane, watcher: ApiWatcher, kind: str, annotations: dict[str, str]) -> tuple[Turn, Turn]:
    names = [f"{kind}-{number}" for number in range(COUNT)]
    running: set[str] = set()
    gone: set[str] = set()
    seen = len(watcher.events)

    def look() -> bool:
        nonlocal seen
        for event in watcher.events[seen:]:
            seen += 1
            if event.type == "DELETED":
                gone.add(event.name)
            elif event.object.get("status", {}).get("phase") == "Running":
                running.add(event.name)
        return running.issuperset(names)

    up = _turn(plane, names, annotations, look)
    return up, _turn(plane, names, None, lambda: look() and gone.issuperset(names))


def _turn(plane: Plane, names: list[str], annotations: dict[str, str] | None, done: Callable[[], bool]) -> Turn:
    used, began = _cpu_by_process(plane), time.perf_counter()
    asyncio.run(write_pods(plane, names, annotations))
    until("all pods Running" if annotations is not None else "all pods gone", done, PATIENCE_S, every=0.01)
    took = time.perf_counter() - began
    time.sleep(SETTLED_S)
    spent = sum(seconds - used.get(pid, 0.0) for pid, seconds in _cpu_by_process(plane).items())
    return Turn(took, 1000 * spent / len(names))


def _cpu_by_process(plane: Plane) -> dict[int, float]:
    """Seconds of CPU by pid; the shims of pods that ended since are left out."""
    found = {}
    for pid, line in plane.processes().items():
        if not line.startswith("sleep "):
            with contextlib.suppress(OSError):
                found[pid] = cpu_seconds(pid)
    return found


async def write_pods(plane: Plane, names: list[str], annotations: dict[str, str] | None) -> None:
    """Create every pod, or delete it when there are no annotations to give."""
    client = client_of(plane.root)
    await client.start()
    left = iter(names)

    async def write() -> None:
        for name in left:
            if annotations is None:
                await client.delete(PODS, name, "default")
            else:
                await client.create(PODS, sleeping_pod(name, annotations), "default")

    try:
        await asyncio.gather(*(write() for _ in range(WRITERS)))
    finally:
        await client.close()


def _bare() -> float:
    began = time.perf_counter()
    processes = [subprocess.Popen(["sleep", "100000"]) for _ in range(COUNT)]
    took = time.perf_counter() - began
    for process in processes:
        process.kill()
        process.wait()
    return took
