"""What cri, pleg and podworker cost while nothing happens, over the number of pods: generic beside evented.

A whole plane for each mode, side by side, hollow pods of two containers, grown from 10 to 500. Fifteen seconds are
sampled of either size (NODEPLANE_LONG=1: 300 s after 60 s of rest), by the scheduler's own count of nanoseconds.
`python -m tests.bench.pleg_idle` prints the table that docs/explanation/pleg.svg is drawn from.
"""

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench.row import Row
from tests.support.plane import Plane, until

LONG = bool(os.environ.get("NODEPLANE_LONG"))
REST_S, SAMPLE_S = (60.0, 300.0) if LONG else (15.0, 15.0)
"""Rest: statuses and events of pods that were just made are on their way for a while."""
SIZES = (10, 500)
PICTURED = (10, 110, 250, 500)
FEW, MANY, MOST_CROWDED = 500, 1000, 0.2
RESYNCED_S, PERIOD_S = 100.0, 300.0
"""Each pod is synced once more in the 90 s after its last change. Then the rarest periodic work is a full relist."""
ACTORS = ("cri", "pleg", "podworker")
MODES = ("generic", "evented")
MOST_SHARE, MOST_OF_GENERIC, MOST_GROWTH = 0.5, 0.2, 1.5
LEAST_SHARE = 0.001
"""Percent of a core, for processes that ran at no time in a sample."""
MOST_WITH_RUNTIME = 0.1
"""The goal of KEP-3386 counts the runtime: listing it is what generic mode costs most."""
Shares = dict[str, float]
"""Actor -> percent of a core; also `runtime`, which is listed the more often."""


def rows() -> list[Row]:
    with ThreadPoolExecutor(len(MODES)) as beside:
        generic, evented = beside.map(measure, MODES, [SIZES] * len(MODES))
    told = [Row(_name(size, "generic"), total(generic[size]), "% core") for size in SIZES]
    told += [_evented(size, total(evented[size]), total(generic[size])) for size in SIZES]
    growth = total(evented[SIZES[-1]]) / max(LEAST_SHARE, total(evented[SIZES[0]]))
    return [
        *told,
        _with_runtime(evented[SIZES[-1]], generic[SIZES[-1]]),
        Row(
            f"pleg idle, evented, {SIZES[-1]} pods over {SIZES[0]}",
            growth,
            "x",
            None,
            f"<= {MOST_GROWTH}",
            growth <= MOST_GROWTH,
        ),
    ]


def crowded() -> list[Row]:
    """The whole node group with MANY pods; its floor is that with FEW."""
    found = measure("evented", (FEW, MANY), RESYNCED_S, PERIOD_S)
    share, few = (sum(found[size].values()) for size in (MANY, FEW))
    name = f"idle node group, {MANY} pods, evented"
    return [Row(name, share, "% core", few, f"<= {MOST_CROWDED} %", share <= MOST_CROWDED)]


def _name(size: int, mode: str) -> str:
    return f"idle cri+pleg+podworker, {size} pods, {mode}"


def _evented(size: int, share: float, generic: float) -> Row:
    last = size == SIZES[-1]
    ok = not last or (share <= MOST_SHARE and share <= MOST_OF_GENERIC * generic)
    return Row(_name(size, "evented"), share, "% core", generic, "<= 0.5 %, 1/5" if last else "", ok)


def _with_runtime(evented: Shares, generic: Shares) -> Row:
    share, floor = sum(evented.values()), sum(generic.values())
    name = f"the same with the runtime, {SIZES[-1]} pods, evented"
    return Row(name, share, "% core", floor, "1/10", share <= MOST_WITH_RUNTIME * floor)


def total(shares: Shares) -> float:
    return sum(shares[actor] for actor in ACTORS)


def measure(mode: str, sizes: Sequence[int], rest: float = REST_S, sample: float = SAMPLE_S) -> dict[int, Shares]:
    """Number of pods -> shares in `sample` seconds after `rest` seconds."""
    found: dict[int, Shares] = {}
    with Plane("--pleg-mode", mode, "--max-pods", str(sizes[-1])) as plane:
        until(mode, lambda: plane.status()["pleg"]["beat"]["note"].startswith(mode))
        node = str(plane.list("node")[0]["metadata"]["name"])
        made = 0
        for size in sizes:
            _grow(plane, node, made, size)
            made = size
            found[size] = _sample(plane, rest, sample)
    return found


def _grow(plane: Plane, node: str, made: int, size: int) -> None:
    items = [_pod(f"idle-{number}", node) for number in range(made, size)]
    plane.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), timeout=180
    )
    until(f"{size} running", lambda: _running(plane), 480, every=0.5, good=lambda count: count >= size)


def _running(plane: Plane) -> int:
    return [pod["status"].get("phase") for pod in plane.list("pod")].count("Running")


def _pod(name: str, node: str) -> dict[str, Any]:
    containers = [{"name": part, "image": "hollow/idle"} for part in ("a", "b")]
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _sample(plane: Plane, rest: float, sample: float) -> Shares:
    status = plane.status()
    pids = {actor: status[actor]["pid"] for actor in (*ACTORS, "runtime")}
    time.sleep(rest)
    before, began = {actor: cpu_ns(pid) for actor, pid in pids.items()}, time.monotonic_ns()
    time.sleep(sample)
    passed = time.monotonic_ns() - began
    return {actor: 100 * (cpu_ns(pid) - before[actor]) / passed for actor, pid in pids.items()}


def cpu_ns(pid: int) -> int:
    """On a processor so far, all threads, as the scheduler counts."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            used += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return used


if __name__ == "__main__":
    for mode in MODES:
        for size, shares in measure(mode, PICTURED).items():
            print(mode, size, *(f"{actor}={share:.3f}" for actor, share in shares.items()), flush=True)
