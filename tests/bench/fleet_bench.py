"""A fleet of simulated nodes: how fast it is there, what it costs when nothing happens, and what pods on it cost.

The floor of the registration is a bare client that creates as many Nodes, leases and slices of the same content.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import uvloop

from actors.fleet.profiles.catalog import find_profile
from actors.fleet.profiles.expand import expand
from actors.fleet.simulated.node import Node
from actors.fleet.workload.scenario import builtin_scenarios
from protocols.kinds import views
from protocols.kinds.table import LEASES, NODES, PODS, RESOURCESLICES
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import client_options
from protocols.lifecycle.node.lease import lease_object
from tests.bench.plane_bench import cpu_seconds
from tests.bench.row import Row, at_least, at_most
from tests.bench.scheduler_world import WRITERS, Written
from tests.bench.watch_lab import resident_kb
from tests.support.plane import Plane, until

NODES_N, MANY, PODS_N = 1_000, 5_000, 2_000
IDLE_S = 10.0
REGISTERED_LIMIT_S, IDLE_LIMIT, NODE_LIMIT_KB, POD_LIMIT_KB = 20.0, 20.0, 150.0, 12.0
RATE_LIMIT = 200.0
"""Pods a second: ten times what kwok's documentation says of 1,000 nodes."""
SCENARIO: dict[str, Any] = {
    "profile": "gpus", "nodes": 100, "perNode": 8, "fill": 0.9, "rate": 10, "seconds": 10, "lives": "4s"
}  # fmt: skip
CLAIMS = {"driver": "gpu.example.com"}
LARGE: dict[str, Any] = {**SCENARIO, **CLAIMS, "nodes": 1_400, "seconds": 30}
"""More than 10,000 pods with a claim each."""
CASES = (
    "dra-fill", "dra-full", "dra-prioritized", "dra-partitions", "dra-backtracking", "dra-shared-claims", "dra-tainted",
    "dra-extended",
)  # fmt: skip
CASE_SIZE: tuple[str, ...] = ()
"""Flags of each case."""
SCENARIO_S = 900
STARTUP_LIMIT_S, BROKEN_LIMIT_S = 1.0, 10.0


def run() -> list[Row]:
    return [*_thousand(), *_broken(), *_scenario("claims", {**SCENARIO, **CLAIMS})]


def scale() -> list[Row]:
    """What takes minutes: 5,000 nodes, pods without claims, and 10,000 pods with claims."""
    return [*_many(), *_scenario("plain", SCENARIO), *_scenario("claims", LARGE)]


def dra() -> list[Row]:
    """The cases of scheduler_perf, one after another on one plane; a pod counts when it is Running."""
    rows = []
    with Plane() as plane:
        for name, path in builtin_scenarios().items():
            if name in CASES:
                rows += _case(plane, name, path)
    return rows


def _case(plane: Plane, name: str, path: Path) -> list[Row]:
    return [
        Row(f"{name}, {phase['phase']}: {phase['running']:,} of {phase['pods']:,} pods", phase["pods_per_s"], "1/s")
        for phase in _phases(plane, path, *CASE_SIZE)
    ]


def _thousand() -> list[Row]:
    with Plane() as plane:
        floor = _bare_client(plane, NODES_N)
    with Plane() as plane, _fleet(plane, "gpus", 1) as alone:
        base_kb = resident_kb(alone.pid)
    with Plane() as plane, _fleet(plane, "gpus", NODES_N) as fleet:
        idle_kb, share = resident_kb(fleet.pid), _idle_share(fleet.pid)
        rate, full_kb = _pods(plane, fleet)
    name = f"fleet of {NODES_N:,} nodes x 8 devices"
    return [
        at_most(f"{name}, registered", [fleet.registered_s], "s", REGISTERED_LIMIT_S, floor),
        at_most("  idle CPU of one core", [share], "%", IDLE_LIMIT),
        at_most("  memory a node", [(idle_kb - base_kb) / NODES_N], "kB", NODE_LIMIT_KB),
        at_most("  memory a pod", [(full_kb - idle_kb) / PODS_N], "kB", POD_LIMIT_KB),
        at_least(f"  {PODS_N:,} bound pods, Running", [rate], "1/s", RATE_LIMIT),
    ]


def _broken() -> list[Row]:
    """Break one device on every node at once; wait for every pod's status and event."""
    with Plane() as plane, _fleet(plane, "devices", NODES_N):
        uvloop.run(_created(plane.root, _bound_pods("devices", NODES_N, {"limits": {"example.com/gpu": "1"}})))
        until("pods run", lambda: _running(plane) >= NODES_N, timeout=120, every=0.2)
        began = time.monotonic()
        words = _command(plane, "fault", "--plugin", "example.com/gpu", "--devices", "gpu-0", "--health", "Unhealthy")
        subprocess.run(words, check=True, capture_output=True, timeout=30)
        until("statuses", lambda: _unhealthy(plane) >= NODES_N, timeout=120, every=0.2)
        shown = time.monotonic() - began
        until("events", lambda: _told(plane) >= NODES_N, timeout=120, every=0.2)
        told = time.monotonic() - began
    name = f"a device breaks on {NODES_N:,} nodes at once"
    return [
        at_most(f"{name}, in the statuses of its pods", [shown], "s", BROKEN_LIMIT_S),
        at_most("  and an event of each", [told], "s", BROKEN_LIMIT_S),
    ]


def _unhealthy(plane: Plane) -> int:
    path = "{.items[*].status.containerStatuses[*].allocatedResourcesStatus[*].resources[*].health}"
    return plane.kubectl("get", "pods", "-l", "bench=fleet", "-o", f"jsonpath={path}").count("Unhealthy")


def _told(plane: Plane) -> int:
    return len(plane.kubectl("get", "events", "--field-selector", "reason=DeviceUnhealthy", "-o", "name").splitlines())


def _many() -> list[Row]:
    with Plane() as plane, _fleet(plane, "devices", MANY) as fleet:
        share = _idle_share(fleet.pid)
    return [
        Row(f"fleet of {MANY:,} nodes without pods, registered", fleet.registered_s, "s"),
        Row(f"  idle CPU of one core, {MANY:,} nodes", share, "%"),
    ]


def _scenario(name: str, fields: dict[str, Any]) -> list[Row]:
    with Plane() as plane:
        path = plane.root / f"{name}.yaml"
        path.write_text(json.dumps(fields))
        fill, steady = _phases(plane, path)
    cpu = steady["cpu"]
    apiserver = sum(spent for process, spent in cpu.items() if process.startswith("apiserver"))
    return [
        Row(f"{fill['pods']:,} pods ({name}) on {fields['nodes']:,} nodes, Running", fill["pods_per_s"], "1/s"),
        at_most(f"  {name}: then {fields['rate']} a second, to Running, p50", [steady["p50"]], "s", STARTUP_LIMIT_S),
        Row(f"  {name}: p99", steady["p99"], "s"),
        Row(f"  {name}: CPU a pod, fleet", cpu.get("fleet", 0.0), "ms"),
        Row(f"  {name}: CPU a pod, API server", apiserver, "ms"),
        Row(f"  {name}: CPU a pod, scheduler", cpu.get("scheduler", 0.0), "ms"),
    ]


def _phases(plane: Plane, scenario: Path, *flags: str) -> list[dict[str, Any]]:
    words = _command(plane, "run", str(scenario), *flags, "-o", "json")
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=SCENARIO_S)
    return cast("list[dict[str, Any]]", json.loads(done.stdout)["phases"])


class Running:
    """A fleet that runs."""

    def __init__(self, process: "subprocess.Popen[str]", registered_s: float) -> None:
        self.pid = process.pid
        self.registered_s = registered_s


@contextmanager
def _fleet(plane: Plane, profile: str, nodes: int) -> Iterator[Running]:
    words = _command(plane, "run", profile, "--nodes", str(nodes))
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        yield Running(process, float(line.split(" in ")[1].split()[0]))
    finally:
        process.terminate()
        process.wait(20)


def _command(plane: Plane, *words: str) -> list[str]:
    return [sys.executable, "-m", "supervisor.cli.main", "--root", str(plane.root), "fleet", *words]


def _idle_share(pid: int) -> float:
    time.sleep(IDLE_S / 4)
    before, began = cpu_seconds([pid]), time.monotonic()
    time.sleep(IDLE_S)
    return 100 * (cpu_seconds([pid]) - before) / (time.monotonic() - began)


def _pods(plane: Plane, fleet: Running) -> tuple[float, int]:
    """Bind pods to the nodes; return how many a second came to run, and the memory of the fleet with them."""
    began = time.monotonic()
    uvloop.run(_created(plane.root, _bound_pods("gpus", PODS_N, {})))
    until("pods run", lambda: _running(plane) >= PODS_N, timeout=120, every=0.2)
    took = time.monotonic() - began
    return PODS_N / took, resident_kb(fleet.pid)


def _running(plane: Plane) -> int:
    text = plane.kubectl("get", "pods", "-l", "bench=fleet", "--field-selector", "status.phase=Running", "-o", "name")
    return len(text.splitlines())


def _bound_pods(group: str, count: int, resources: Object) -> Written:
    for number in range(count):
        metadata = {"name": f"bound-{number}", "namespace": "default", "labels": {"bench": "fleet"}}
        container = {"name": "main", "image": "busybox", "resources": resources}
        spec = {"nodeName": f"{group}-{number % NODES_N}", "containers": [container]}
        yield PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _bare_client(plane: Plane, nodes: int) -> float:
    """Return the seconds in which a bare client creates the objects of a fleet."""
    began = time.monotonic()
    uvloop.run(_created(plane.root, _objects(nodes)))
    return time.monotonic() - began


def _objects(nodes: int) -> Written:
    for number, template in enumerate(expand(find_profile("gpus", nodes), nodes)):
        node = Node(template, number)
        obj: Object = {**node.new_object("2026-01-01T00:00:00Z", {})}
        yield NODES, obj
        yield LEASES, lease_object(node.name, "", "2026-01-01T00:00:00.000000Z")
        node.object = cast("views.Node", {"metadata": {"uid": "bare"}})
        for each in node.slices({}):
            yield RESOURCESLICES, each


async def _created(root: Path, objects: Written) -> None:
    with client_options(root / "kubeconfig", "bench") as access:
        client = ApiClient(access)
        await client.start()
        left = iter(objects)

        async def create_some() -> None:
            for resource, obj in left:
                await client.create(resource, obj, obj["metadata"].get("namespace", ""))

        try:
            await asyncio.gather(*(create_some() for _ in range(WRITERS)))
        finally:
            await client.close()
