"""A node filled with pods: from the first one's creation until all of them run, and until all are gone again."""

import asyncio
import subprocess
import time

from protocols.kinds.table import PODS
from tests.bench.pods_load import HOLLOW, client_of, sleeping_pod
from tests.bench.row import Row, at_most
from tests.support.plane import Plane, until
from tests.support.watchers import ApiWatcher

COUNT = 110
"""What a node takes."""
WRITERS = 8
PATIENCE_S = 120.0
RUNNING_LIMIT_S, GONE_LIMIT_S = 15.0, 15.0


def fill() -> list[Row]:
    """Pods of one sleeping process each, then simulated ones; floor: the same processes started with nothing around."""
    with Plane("--store-sync", "full") as plane:
        watcher = ApiWatcher(plane, "/api/v1/pods")
        real = _round(plane, watcher, "real", {})
        hollow = _round(plane, watcher, "hollow", HOLLOW)
        watcher.close()
    return [
        at_most(f"{COUNT} pods from 0 to Running", [real[0]], "s", RUNNING_LIMIT_S, _bare()),
        at_most(f"{COUNT} pods deleted to gone", [real[1]], "s", GONE_LIMIT_S),
        at_most(f"{COUNT} hollow pods from 0 to Running", [hollow[0]], "s", RUNNING_LIMIT_S),
    ]


def _round(plane: Plane, watcher: ApiWatcher, kind: str, annotations: dict[str, str]) -> tuple[float, float]:
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

    began = time.perf_counter()
    asyncio.run(write_pods(plane, names, annotations))
    until("all pods Running", look, PATIENCE_S, every=0.01)
    up = time.perf_counter() - began
    began = time.perf_counter()
    asyncio.run(write_pods(plane, names, None))
    until("all pods gone", lambda: look() and gone.issuperset(names), PATIENCE_S, every=0.01)
    return up, time.perf_counter() - began


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
