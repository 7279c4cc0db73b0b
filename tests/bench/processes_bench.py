"""Writes through 1, 2 and 4 API server processes on one etcd, and what bounds them.

The floor is one process. Each process follows all writes, whoever they came through: that is the part of a write's CPU
that grows with their number. Each has the same number of writers, since the writes under way at a time share the turns
of a process: with 8 writers a write costs one process half as much again as with 32.
"""

import os
import shutil
import time
from pathlib import Path

from tests.bench.resume_bench import scale
from tests.bench.row import Row, Unmeasured
from tests.bench.watch_lab import cpu_seconds
from tests.bench.write_bench import body, plane_on
from tests.bench.write_client import written
from tests.support.apiserver_plane import Plane
from tests.support.store_lab import etcd_process

PROCESSES, SECONDS = (1, 2, 4), 3.0
WRITERS = 32
"""For each process."""
IDLE, WAITING = 3, 4
"""Places in /proc/stat."""
BUSY = 0.9
"""Share of its time in which a core or a process counts as the limit."""
FOLLOWED_LIMIT_US = 50.0
"""CPU of a write in a process through which it did not come."""


def run() -> list[Row]:
    binary = shutil.which("etcd")
    if binary is None:
        raise Unmeasured("etcd is not installed (Debian: apt-get install etcd-server)")
    with etcd_process(binary) as target, plane_on(target) as plane:
        rounds: list[Round] = []
        for count in PROCESSES:
            scale(plane, count)
            written(plane, WRITERS * count, SECONDS / 2, body)
            rounds.append(Round(plane, WRITERS * count))
    first = rounds[0]
    return [row for count, each in zip(PROCESSES, rounds, strict=True) for row in each.rows(count, first)]


class Round:
    """Writes a second, CPU of the API servers, and how busy the machine's cores and one of the processes were."""

    def __init__(self, plane: Plane, writers: int) -> None:
        pids = [process.pid for name, process in plane.processes.items() if name.startswith("apiserver")]
        before, idle = [cpu_seconds(pid) for pid in pids], _idle_seconds()
        began = time.monotonic()
        writes = written(plane, writers, SECONDS, body)
        took = time.monotonic() - began
        spent = [cpu_seconds(pid) - had for pid, had in zip(pids, before, strict=True)]
        self.rate, self.cpu = writes / took, 1e6 * sum(spent) / writes
        self.cores = 1 - (_idle_seconds() - idle) / (took * (os.cpu_count() or 1))
        self.busiest = max(spent) / took

    @property
    def limit(self) -> str:
        """What a further process cannot mend, unless it is a process of the API."""
        if self.cores >= BUSY:
            return "cores"
        return "API process" if self.busiest >= BUSY else "etcd"

    def rows(self, count: int, first: "Round") -> list[Row]:
        """`first` is that of one process."""
        told = f"writes: {count} API process{'es' if count > 1 else ''}, etcd"
        enough = count == 1 or self.limit != "API process"
        most = first.cpu + (count - 1) * FOLLOWED_LIMIT_US
        return [
            Row(told, self.rate, "1/s", first.rate, f"limit: {self.limit}", enough),
            Row(f"{told}: cores in use", 100 * self.cores, "%"),
            Row(f"{told}: CPU per write in all", self.cpu, "us", first.cpu, f"<= {most:.0f} us", self.cpu <= most),
        ]


def _idle_seconds() -> float:
    """Of all cores, waiting for disks included."""
    numbers = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return (int(numbers[IDLE]) + int(numbers[WAITING])) / os.sysconf("SC_CLK_TCK")
