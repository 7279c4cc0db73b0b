"""Long lists and large objects: memory of the API server while they are sent, and how long others wait meanwhile.

The floor of memory is the bytes that travelled; that of the others' p99, the same clients while nothing else goes on.
"""

import asyncio
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec

from tests.bench.beside import beside
from tests.bench.large_client import PATH, Create, Read
from tests.bench.row import Row
from tests.bench.size_lab import pod, pod_name
from tests.bench.watch_lab import Peer, create_all, peer, resident_kb, until_applied
from tests.support.apiserver_plane import Plane, running_plane

PODS, CHUNK = 50_000, 500
LASTS_S = 2.0
"""A load is repeated for so long, so that others make enough requests beside it."""
OBJECTS, MANY_OBJECTS, OBJECT_BYTES = 200, 1000, 1_000_000
CONNECTIONS = 4
"""Over which objects are written."""
QUIET_S = 3.0
RATIO_LIMIT, WAIT_LIMIT_MS = 2.0, 50.0
SENT = re.compile(r"^apiserver_response_sizes_sum{.*} (\S+)$", re.MULTILINE)
INITIAL = "watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
END = "initial-events-end"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PODS_PATH = "/api/v1/pods"
WAYS = {
    "JSON": Read(PODS_PATH),
    "protobuf": Read(PODS_PATH, accept=PROTOBUF),
    "watch-list": Read(f"{PODS_PATH}?{INITIAL}", END),
    "watch-list, protobuf": Read(f"{PODS_PATH}?{INITIAL}", END, f"{PROTOBUF};stream=watch"),
}
Load = Callable[[], int]
"""Returns the bytes that travelled."""


def lists() -> list[Row]:
    with running_plane() as plane, _client_of(plane) as client:
        create_all(plane, [(f"/registry/pods/n0/{pod_name(number)}", pod(number)) for number in range(PODS)])
        until_applied(plane, PODS)
        loads: dict[str, Load] = {way: partial(_ask, client, read) for way, read in WAYS.items()}
        loads[f"kubectl, chunks of {CHUNK}"] = lambda: _kubectl(plane)
        loads["JSON"]()  # encodes every object for the first time, which is retained
        quiet = _quiet(plane)
        return [row for way, load in loads.items() for row in _rows(plane, f"{PODS} pods, {way}", load, quiet)]


def objects() -> list[Row]:
    return _objects(OBJECTS)


def many_objects() -> list[Row]:
    return _objects(MANY_OBJECTS)


def _objects(count: int) -> list[Row]:
    """Written and watched at the same time, then listed, then watched from the beginning."""
    with running_plane() as plane, _client_of(plane) as client, _client_of(plane) as watching:
        last = f'"name":"large-{count - 1:05}"'

        def written() -> int:
            watching.tell(_text(Read(f"{PATH}?watch=1", last)))
            return _ask(client, Create(count, OBJECT_BYTES, CONNECTIONS)) + int(watching.heard())

        loads: dict[str, Load] = {
            "written, watched": written,
            "listed": partial(_ask, client, Read(PATH)),
            "watch-list": partial(_ask, client, Read(f"{PATH}?{INITIAL}", END)),
        }
        told, quiet = f"{count} x {OBJECT_BYTES / 1e6:g} MB", _quiet(plane)
        return [
            row
            for way, load in loads.items()
            for row in _rows(plane, f"{told}, {way}", load, quiet, once=load is written)
        ]


def _client_of(plane: Plane) -> AbstractContextManager[Peer]:
    return peer("large_client", str(plane.port), str(plane.settings.layout.pki))


def _text(wanted: Read | Create) -> str:
    return msgspec.json.encode(wanted).decode()


def _ask(client: Peer, wanted: Read | Create) -> int:
    return int(client.ask(_text(wanted)))


def _quiet(plane: Plane) -> float:
    with beside(plane) as took:
        time.sleep(QUIET_S)
    return took.p99


def _rows(plane: Plane, told: str, load: Load, quiet: float, once: bool = False) -> list[Row]:
    pid = plane.processes["apiserver-0"].pid
    before, until = resident_kb(pid), 0.0 if once else time.monotonic() + LASTS_S
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # makes the present memory its peak
    with beside(plane) as took:
        sent = load()
        while time.monotonic() < until:
            load()
    growth, limit, p99 = (_peak_kb(pid) - before) / 1024, RATIO_LIMIT * sent / 1e6, took.p99
    return [
        Row(f"large: {told}: memory", growth, "MB", sent / 1e6, f"<= {RATIO_LIMIT:g} x sent", growth <= limit),
        Row(f"large: {told}: others' p99", p99, "ms", quiet, f"<= {WAIT_LIMIT_MS:g} ms", p99 <= WAIT_LIMIT_MS),
    ]


def _peak_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _kubectl(plane: Plane) -> int:
    """Its table of all pods."""
    before = _answered(plane)
    command = plane.command("get", "pods", "--all-namespaces", f"--chunk-size={CHUNK}")
    subprocess.run(command, check=True, env=plane.environment, stdout=subprocess.DEVNULL)
    return _answered(plane) - before


def _answered(plane: Plane) -> int:
    """Bytes of all answers so far, before compression."""
    return round(sum(map(float, SENT.findall(asyncio.run(plane.metrics("apiserver-0"))))))
