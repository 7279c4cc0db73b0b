"""Cost of the traces of pods: of one span, of a node that is filled with pods, of one that idles, and of looking.

The share of a plane's CPU is computed from the spans it recorded and the CPU of one: the difference between runs with
and without spans is smaller than that between two equal runs.
"""

import asyncio
import time
from collections.abc import Callable
from statistics import median

import msgspec

from actors.apiserver.api.request.traces import record_stored
from actors.apiserver.api.stored import Stored
from protocols.kinds.pods.pods import PODS
from protocols.process.layout import Layout
from protocols.trace import clock, record, span
from supervisor.trace.collect import plane as connected
from supervisor.trace.collect import pod_trace
from tests.bench.plane_bench import cpu_seconds
from tests.bench.pods_bench import COUNT, write_pods
from tests.bench.pods_load import HOLLOW
from tests.bench.row import Row, at_most
from tests.support.plane import Plane, until
from tests.support.watchers import ApiWatcher

UID = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e"
TIMES = 300
OTHER_BYTES = 2 << 20
"""More than a core's own caches hold."""
SPAN_LIMIT_US, STORED_LIMIT_US = 15.0, 30.0
RATE = 100
"""Pods a second."""
SHARE_LIMIT = 5.0
IDLE_S, REST_S = 20.0, 5.0
LOOK_LIMIT_MS = 500.0


def run() -> list[Row]:
    """Cost of a span; then a plane that is filled with simulated pods, idles, and is asked for a trace."""
    one = max(_cold_us(_recorded), _cold_us(_block))
    stored = _cold_us(lambda: record_stored(PODS, Stored("default/some-pod", 7, STORED), 1, 7))
    rows = [
        at_most("trace, a span, caches cold", [one], "us", SPAN_LIMIT_US),
        at_most("trace, a span of the API server, caches cold", [stored], "us", STORED_LIMIT_US),
    ]
    with Plane("--store-sync", "full") as plane:
        return rows + _filled(plane, one, stored)


def _recorded() -> None:
    record(UID, "status", clock(), phase="Running", pod="default/some-pod")


def _block() -> None:
    with span(UID, "create container", container="main", attempt=0):
        pass


STORED = msgspec.json.encode(
    {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "some-pod", "namespace": "default", "uid": UID, "managedFields": [{"fieldsV1": {}}] * 8},
        "spec": {"containers": [{"name": f"c{n}", "image": "busybox", "command": ["sleep", "1"]} for n in range(8)]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": None}] * 8},
    }
)


def _cold_us(step: Callable[[], None]) -> float:
    """Return the time of one step in microseconds, the median, when other work has used the core's caches.

    In a plane a span is recorded once in a while, which takes two to three times as long as in a loop: a median of 3 to
    5 us, by a clock around each.
    """
    other, times = bytearray(OTHER_BYTES), []
    for _ in range(TIMES):
        hash(bytes(other))
        began = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - began)
    return median(times) / 1000


def _filled(plane: Plane, one: float, stored: float) -> list[Row]:
    layout = Layout(plane.root, plane.root / "kubelet")
    names = [f"traced-{number}" for number in range(COUNT)]
    running: set[str] = set()
    watcher = ApiWatcher(plane, "/api/v1/pods")
    pids = list(plane.processes())
    cpu, before, began = cpu_seconds(pids), _spans(layout), time.monotonic()
    asyncio.run(write_pods(plane, names, HOLLOW))

    def look() -> bool:
        events, watcher.events[:] = list(watcher.events), []
        running.update(e.name for e in events if e.object.get("status", {}).get("phase") == "Running")
        return running.issuperset(names)

    until("all pods Running", look, 120.0, every=0.01)
    seconds, cpu, after = time.monotonic() - began, cpu_seconds(pids) - cpu, _spans(layout)
    watcher.close()
    counts = {name: after[name] - before.get(name, 0) for name in after}
    mine = sum((stored if name.startswith("apiserver") else one) * each for name, each in counts.items()) / 1e6
    idle = _idle(layout)
    return [
        at_most("trace, spans of a pod until it runs", [sum(counts.values()) / COUNT], "", 80),
        at_most(f"trace, share of the CPU at {COUNT / seconds:.0f} pods/s", [100 * mine / cpu], "%", SHARE_LIMIT),
        at_most(f"trace, CPU at {RATE} pods/s, of one core", [100 * RATE * mine / COUNT], "%", SHARE_LIMIT),
        at_most(f"trace, spans a second, {COUNT} idle pods", [idle], "/s", 0.0),
        at_most("trace, asking all processes for one pod", [_ask(layout, names[0])], "ms", LOOK_LIMIT_MS),
    ]


def _idle(layout: Layout) -> float:
    time.sleep(REST_S)
    before = sum(_spans(layout).values())
    time.sleep(IDLE_S)
    return (sum(_spans(layout).values()) - before) / IDLE_S


def _ask(layout: Layout, name: str) -> float:
    began = time.perf_counter()
    trace = asyncio.run(pod_trace(layout, "default", name))
    assert trace.rows, "no spans"
    return 1000 * (time.perf_counter() - began)


def _spans(layout: Layout) -> dict[str, int]:
    """Return the number of spans that each process recorded so far."""

    async def ask() -> dict[str, int]:
        async with connected(layout) as collectors:
            return {name: count for collector in collectors for name, count in (await collector.recorded()).items()}

    return asyncio.run(ask())
