"""A recording of pods that come and go: its size, what its process costs, and how soon it is open again.

The size of ten minutes is that of SECONDS, times 600 / SECONDS: what a pod adds does not depend on those before it, and
the key frames of two minutes are in it. Pods live for LIVE / RATE seconds. CPU is that of the recorder's process, of
one processor; what the others spend on answering it is not in it.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from protocols.recording.reader import Recording
from supervisor.why.command import diagnose_recorded
from supervisor.why.targets import WhyTarget
from tests.bench.row import Row
from tests.bench.watch_lab import cpu_seconds
from tests.support.plane import Plane
from tests.support.plane_client import ask, create

SECONDS, RATE, LIVE = 120.0, 5.0, 40
RECORDED_S = 600.0
SIZE_MB, CPU, OPEN_S = 20.0, 3.0, 2.0


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "plane.npr"
        with Plane("--record", str(path)) as plane:
            time.sleep(2.0)
            before, size, began = _cpu(plane), path.stat().st_size, time.monotonic()
            _play(plane, began)
            time.sleep(2.0)  # what the last pods did is written
            seconds = time.monotonic() - began
            cpu, size = _cpu(plane) - before, path.stat().st_size - size
        return [*_rows(size * RECORDED_S / seconds, 100 * cpu / seconds), _opened(path, RECORDED_S / seconds)]


def _cpu(plane: Plane) -> float:
    return cpu_seconds(plane.status()["recorder"]["pid"])


def _play(plane: Plane, began: float) -> None:
    for number in range(int(SECONDS * RATE)):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        create(plane.root, _pod(f"p-{number}"))
        if number >= LIVE:
            ask(plane.root, "DELETE", f"/api/v1/namespaces/default/pods/p-{number - LIVE}")


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "3600"]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _rows(size: float, share: float) -> list[Row]:
    what = f"recording: {RATE:g} pods/s"
    return [
        Row(f"{what}, 10 minutes", size / 1e6, "MB", None, f"<= {SIZE_MB:g} MB", size / 1e6 <= SIZE_MB),
        Row(f"{what}, CPU of the recorder", share, "%", None, f"<= {CPU:g} %", share <= CPU),
    ]


def _opened(path: Path, times: float) -> Row:
    """Return the time until the reason for a pod's state is known, times what ten minutes have more."""
    began = time.monotonic()
    recording = Recording(path)
    asyncio.run(diagnose_recorded(recording, recording.end_ms, WhyTarget("pod", "p-1", "default")))
    value = (time.monotonic() - began) * times
    return Row("recording: open 10 minutes, and why", value, "s", None, f"<= {OPEN_S:g} s", value <= OPEN_S)
