"""Figures of a whole plane: start, idle cost, recovery of each actor, and death of a process to status on a watch."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.pods_bench import write_pods
from tests.bench.pods_load import HOLLOW, LIFE_S
from tests.bench.row import Row, at_most
from tests.support.plane import Plane, until
from tests.support.probe import StatusProbe
from tests.support.watchers import ApiWatcher

STARTS = 5
KILLS = 3
KILLED = 100
"""Actors that are killed, at most."""
DEATHS = 20
BUSY_DEATHS, BUSY_PODS, BUSY_STARTS = 40, 100, 20
"""Deaths beside so many pods, and so many starts a second."""
IDLE_S, REST_S = 20.0, 5.0
START_LIMIT_S, RECOVERY_LIMIT_S, DEATH_LIMIT_MS = 2.0, 0.3, 15.0
BUSY_PAUSE_S = 0.25
BUSY_LIMIT_MS, BUSY_WORST_MS = 12.0, 60.0
IDLE_LIMIT_CPU, IDLE_LIMIT_MB = 3.0, 250.0


def start() -> list[Row]:
    """`nodeplane up --detach` until it says Ready, on a fresh root; floor: importing the same libraries once."""
    times = []
    for _ in range(STARTS):
        plane = Plane("--store-sync", "full")
        began = time.perf_counter()
        plane.up()
        times.append(time.perf_counter() - began)
        plane.__exit__(None, None, None)
    return [at_most("up to node Ready, fresh root", times, "s", START_LIMIT_S, bare_python())]


def bare_python() -> float:
    """Return the seconds that importing the libraries of a plane takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import grpc.aio, zmq, aiohttp, msgspec, uvloop"], check=True, timeout=20)
    return time.perf_counter() - began


def idle() -> list[Row]:
    """CPU and proportional memory of all processes of a plane with one pod and nothing to do."""
    with Plane("--store-sync", "full") as plane:
        plane.apply(loop_pod("idle"))
        plane.pod_ready("idle")
        time.sleep(REST_S)
        pids = [pid for pid, line in plane.processes().items() if "sleep" not in line]
        before, began = cpu_seconds(pids), time.monotonic()
        time.sleep(IDLE_S)
        share = 100 * (cpu_seconds(pids) - before) / (time.monotonic() - began)
        memory = sum(map(proportional_mb, pids))
    return [
        at_most("idle plane, CPU of one core", [share], "%", IDLE_LIMIT_CPU),
        at_most("idle plane, proportional memory", [memory], "MB", IDLE_LIMIT_MB),
    ]


def recovery() -> list[Row]:
    """SIGKILL of each actor until it is ready and every replica stands at its owner's position again."""
    rows = []
    with Plane("--store-sync", "full") as plane:
        plane.plugin()
        plane.apply(loop_pod("steady"))
        plane.pod_ready("steady")
        with StatusProbe(plane.root) as probe:
            for actor in sorted(plane.settled())[:KILLED]:
                times = [probe.recovery(actor) for _ in range(KILLS)]
                rows.append(at_most(f"kill -9 {actor} to ready and synced", times, "s", RECOVERY_LIMIT_S))
    return rows


def death() -> list[Row]:
    """SIGKILL of a container's process until the changed status arrives on an open API watch."""
    times = []
    with Plane("--store-sync", "full") as plane:
        watcher = ApiWatcher(plane, "/api/v1/pods")
        for number in range(DEATHS):
            name = f"mortal-{number}"
            plane.apply(loop_pod(name, policy="Never"))
            plane.pod_ready(name)
            times.append(_death(watcher, name))
            plane.kubectl("delete", "pod", name, "--wait=false")
        watcher.close()
    return [at_most("process death to status on a watch", times, "ms", DEATH_LIMIT_MS)]


def death_busy() -> list[Row]:
    """The same with pods that run beside it, and others that start and end all the time."""
    names = [f"mortal-{number}" for number in range(BUSY_DEATHS)]
    with Plane("--store-sync", "full", "--max-pods", "1000") as plane:
        asyncio.run(write_pods(plane, [f"calm-{number}" for number in range(BUSY_PODS - BUSY_DEATHS)], HOLLOW))
        for name in names:
            plane.apply(loop_pod(name, policy="Never"))
        pids = [int(until("process", lambda name=name: pids_of(f"bench-{name}"))[0]) for name in names]  # type: ignore[misc]  # bound
        until("all run", lambda: running(plane) >= BUSY_PODS, 120, every=0.5)
        watcher = ApiWatcher(plane, "/api/v1/pods")
        seconds = BUSY_DEATHS * BUSY_PAUSE_S + 2 * LIFE_S
        load = [sys.executable, "-m", "tests.bench.pods_load", str(plane.root), str(BUSY_STARTS), str(seconds)]
        with subprocess.Popen(load) as starting:
            time.sleep(LIFE_S)
            times = []
            for name, pid in zip(names, pids, strict=True):
                times.append(_kill(watcher, name, pid))
                time.sleep(BUSY_PAUSE_S)
            starting.terminate()
        watcher.close()
    beside = f"beside {BUSY_PODS} pods and {BUSY_STARTS} starts/s"
    return [
        at_most(f"process death to status on a watch, {beside}, p50", times, "ms", BUSY_LIMIT_MS),
        at_most("the same, p99", [max(times)], "ms", BUSY_WORST_MS),
    ]


def running(plane: Plane) -> int:
    return [pod["status"].get("phase") for pod in plane.list("pod")].count("Running")


def _death(watcher: ApiWatcher, name: str) -> float:
    return _kill(watcher, name, int(until("process", lambda: pids_of(f"bench-{name}"))[0]))


def _kill(watcher: ApiWatcher, name: str, pid: int) -> float:
    """Milliseconds from SIGKILL to the event with the terminated container."""
    seen = len(watcher.events)
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while time.perf_counter() - began < 10:
        for event in watcher.events[seen:]:
            seen += 1
            if event.name == name and terminated(event.object):
                return 1000 * (time.perf_counter() - began)
        time.sleep(0.0005)
    return 10_000.0


def terminated(pod: dict[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return any("terminated" in item.get("state", {}) for item in statuses)


def loop_pod(name: str, policy: str = "Always") -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "busybox", "command": ["sleep", "100000"]}
    container["env"] = [{"name": "MARK", "value": f"bench-{name}"}]
    spec = {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def pids_of(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                around, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"MARK={mark}\0".encode() in around and line.startswith(b"sleep"):
                found.append(int(entry.name))
    return found


def cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def proportional_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
