"""What importing each actor adds to a plane: CPU and memory of the forkserver, which imports them in start order.

A module that several actors need is counted for the first of them.
"""

import json
import subprocess
import sys

from supervisor.base.groups import PlaneShape, children
from supervisor.forkserver.client import PRELOADED
from tests.bench.row import Row, at_most

Cost = tuple[float, float]
"""Milliseconds of CPU, and MB."""
ROUNDS = 5
MOST: Cost = (460.0, 72.0)
"""For all of them."""
BARE = ["grpc.aio", "zmq", "aiohttp", "msgspec", "uvloop"]
"""Libraries whose import is the floor."""
LIMITS: dict[str, Cost] = {
    "libraries of all": (60, 20), "store": (100, 16), "watchcache": (10, 2), "apiserver": (230, 25),
    "controllers": (30, 3), "scheduler": (30, 3), "runtime": (30, 4), "cri": (8, 1), "pleg": (10, 1),
    "devices": (60, 4), "podworker": (40, 4), "health": (6, 1), "frontdoor": (15, 2),
}  # fmt: skip
"""By actor, in start order."""
CODE = """
import gc, importlib, json, os, sys, time
from supervisor.forkserver.server import without_system_authorities

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

gc.disable()
costs = []
for modules in json.loads(sys.argv[1]):
    cpu, memory = time.process_time(), resident()
    with without_system_authorities():
        for module in modules:
            importlib.import_module(module)
    costs.append((1000 * (time.process_time() - cpu), resident() - memory))
print(json.dumps(costs))
"""


def run() -> list[Row]:
    groups: dict[str, list[str]] = {"libraries of all": list(PRELOADED)}
    groups |= {spec.actor: [spec.module] for spec in children(PlaneShape())}
    rounds = [_import(list(groups.values())) for _ in range(ROUNDS)]
    rows = [row for at, name in enumerate(groups) for row in _rows(name, [costs[at] for costs in rounds], LIMITS[name])]
    totals = [(sum(cpu for cpu, _ in costs), sum(size for _, size in costs)) for costs in rounds]
    return [*rows, *_rows("a plane", totals, MOST, _import([BARE])[0])]


def _rows(name: str, costs: list[Cost], most: Cost, floor: Cost | tuple[None, None] = (None, None)) -> list[Row]:
    cpu, memory = zip(*costs, strict=True)
    return [
        at_most(f"import of {name}, CPU", list(cpu), "ms", most[0], floor[0]),
        at_most(f"import of {name}, memory", list(memory), "MB", most[1], floor[1]),
    ]


def _import(groups: list[list[str]]) -> list[Cost]:
    """Return ms and MB of each group of modules, imported in turn by a new interpreter."""
    words = [sys.executable, "-P", "-c", CODE, json.dumps(groups)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return [(cpu, memory) for cpu, memory in json.loads(done.stdout)]
