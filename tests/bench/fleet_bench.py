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
from typing import Any

import uvloop

from actors.fleet.profiles.catalog import find_profile
from actors.fleet.profiles.expand import expand
from actors.fleet.simulated.node import Node
from protocols.kinds.table import LEASES, NODES, PODS, RESOURCESLICES
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import client_options
from protocols.lifecycle.node.lease import NAMESPACE, lease_object
from tests.bench.plane_bench import cpu_seconds
from tests.bench.row import Row, at_least, at_most
from tests.bench.scheduler_world import WRITERS, Written
from tests.bench.watch_lab import resident_kb
from tests.support.plane import Plane, until

NODES_N, MANY, PODS_N = 1_000, 5_000, 2_000
IDLE_S = 20.0
REGISTERED_LIMIT_S, IDLE_LIMIT, NODE_LIMIT_KB, POD_LIMIT_KB = 20.0, 20.0, 150.0, 12.0
RATE_LIMIT = 200.0
"""Pods a second: ten times what kwok's documentation says of 1,000 nodes."""
SCENARIO = {"nodes": 100, "perNode": 8, "fill": 0.9, "rate": 10, "seconds": 20, "lives": "4s"}
STARTUP_LIMIT_S = 1.0


def run() -> list[Row]:
    with Plane() as plane:
        rows = _idle(plane, NODES_N)
        rows += _many(plane)
        rows += _scenario(plane, "claims", {"profile": "gpus", "driver": "gpu.example.com"})
        rows += _scenario(plane, "plain", {"profile": "gpus"})
    return rows


def _idle(plane: Plane, nodes: int) -> list[Row]:
    floor = _bare_client(plane, nodes)
    with _fleet(plane, "gpus", 1) as alone:
        base_kb = resident_kb(alone.pid)
    with _fleet(plane, "gpus", nodes) as fleet:
        took, idle_kb, share = fleet.registered_s, resident_kb(fleet.pid), _idle_share(fleet.pid)
        rate, full_kb = _pods(plane, fleet)
    name = f"fleet of {nodes:,} nodes x 8 devices"
    return [
        at_most(f"{name}, registered", [took], "s", REGISTERED_LIMIT_S, floor),
        at_most(f"{name}, idle CPU of one core", [share], "%", IDLE_LIMIT),
        at_most("  memory a node", [(idle_kb - base_kb) / nodes], "kB", NODE_LIMIT_KB),
        at_most("  memory a pod", [(full_kb - idle_kb) / PODS_N], "kB", POD_LIMIT_KB),
        at_least(f"  {PODS_N:,} bound pods, Running", [rate], "1/s", RATE_LIMIT),
    ]


def _many(plane: Plane) -> list[Row]:
    with _fleet(plane, "devices", MANY) as fleet:
        share = _idle_share(fleet.pid)
        name = f"fleet of {MANY:,} nodes without pods"
        return [
            Row(f"{name}, registered", fleet.registered_s, "s"),
            Row("  idle CPU of one core", share, "%"),
        ]


def _scenario(plane: Plane, name: str, fields: dict[str, Any]) -> list[Row]:
    path = plane.root / f"{name}.yaml"
    path.write_text(json.dumps({**SCENARIO, **fields}))
    done = subprocess.run(
        _command(plane, "run", str(path), "-o", "json"), stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    fill, steady = json.loads(done.stdout)["phases"]
    nodes = SCENARIO["nodes"]
    apiserver = sum(spent for process, spent in steady["cpu"].items() if process.startswith("apiserver"))
    return [
        Row(f"pods ({name}) that fill {nodes} nodes to 90 %, Running", fill["pods_per_s"], "1/s"),
        at_most(
            f"  then pods at {SCENARIO['rate']}/s: p50 of creation to Running", [steady["p50"]], "s", STARTUP_LIMIT_S
        ),
        Row("  p99", steady["p99"], "s"),
        Row("  CPU a pod, fleet", steady["cpu"].get("fleet", 0.0), "ms"),
        Row("  CPU a pod, API server", apiserver, "ms"),
        Row("  CPU a pod, scheduler", steady["cpu"].get("scheduler", 0.0), "ms"),
    ]


class Running:
    """A fleet that runs."""

    def __init__(self, process: "subprocess.Popen[str]", registered_s: float) -> None:
        self.pid = process.pid
        self.registered_s = registered_s


@contextmanager
def _fleet(plane: Plane, profile: str, nodes: int) -> Iterator[Running]:
    """Run a fleet of its own name; delete its objects at the end."""
    name = f"bench-{nodes}"
    words = _command(plane, "run", profile, "--nodes", str(nodes), "--name", name)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        yield Running(process, float(line.split(" in ")[1].split()[0]))
    finally:
        process.terminate()
        process.wait(20)
        subprocess.run(_command(plane, "delete", "--name", name), check=True, capture_output=True, timeout=120)


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
    uvloop.run(_created(plane.root, _bound_pods()))
    until("pods run", lambda: _running(plane) >= PODS_N, timeout=120, every=0.2)
    took = time.monotonic() - began
    found = resident_kb(fleet.pid)
    plane.kubectl("delete", "pods", "-l", "bench=fleet", "--wait=false")
    until("pods are gone", lambda: _running(plane) == 0, timeout=120, every=0.5)
    return PODS_N / took, found


def _running(plane: Plane) -> int:
    text = plane.kubectl("get", "pods", "-l", "bench=fleet", "--field-selector", "status.phase=Running", "-o", "name")
    return len(text.splitlines())


def _bound_pods() -> Written:
    for number in range(PODS_N):
        metadata = {"name": f"bound-{number}", "namespace": "default", "labels": {"bench": "fleet"}}
        spec = {"nodeName": f"gpus-{number % NODES_N}", "containers": [{"name": "main", "image": "busybox"}]}
        yield PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _bare_client(plane: Plane, nodes: int) -> float:
    """Return the seconds in which a bare client creates the objects of a fleet; delete them."""
    began = time.monotonic()
    uvloop.run(_created(plane.root, _objects(nodes)))
    took = time.monotonic() - began
    label = "nodeplane.dev/fleet=bare"
    for words in (["nodes", "-l", label], ["resourceslices", "-l", label], ["leases", "-n", NAMESPACE, "-l", label]):
        plane.kubectl("delete", *words, "--wait=false")
    return took


def _objects(nodes: int) -> Written:
    labels = {"nodeplane.dev/fleet": "bare"}
    for number, template in enumerate(expand(find_profile("gpus", nodes), nodes)):
        node = Node(template, number)
        node.object = node.new_object("2026-01-01T00:00:00Z", labels)
        node.object["metadata"] |= {"name": f"bare-{number}", "uid": "bare"}
        yield NODES, {**node.object, "metadata": {"name": f"bare-{number}", "labels": labels}}
        lease = lease_object(f"bare-{number}", "bare", "2026-01-01T00:00:00.000000Z")
        yield LEASES, {**lease, "metadata": {"name": f"bare-{number}", "namespace": NAMESPACE, "labels": labels}}
        for obj in node.slices(labels):
            obj["metadata"] = {"name": f"bare-{number}", "labels": labels}
            yield RESOURCESLICES, obj


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
