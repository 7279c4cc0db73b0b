"""Sizes with which a bench takes a few seconds: `make test-all` runs each once, so that none rots unseen.

They stand here by the name of the constant they replace, since a figure measured with them says nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tests.bench.simulation_bench import LOADS
from tests.bench.size_lab import Point
from tests.bench.watch_lab import TOKEN, plain_plane

_WRITES = {"WRITERS": 2, "SECONDS": 0.2, "ROUNDS": 1}
_PLAIN = (("plain", TOKEN, plain_plane),)
_BUSY = {"BUSY_DEATHS": 1, "BUSY_PODS": 3, "LIFE_S": 0.5}
_PLANE = {"STARTS": 1, "KILLS": 1, "KILLED": 3, "DEATHS": 1, "IDLE_S": 0.5, "REST_S": 0.0}
_HEALTH = {"PODS_COUNT": 5, "CHANGES": 20, "BARE": 20, "FLAPPING": 20, "FLAP_S": 0.5, "WARM_S": 0.3}
_TINY = {"profile": "gpus", "nodes": 2, "perNode": 8, "fill": 0.5, "rate": 10, "seconds": 0.5, "lives": "200ms"}
_FLEET = {
    "NODES_N": 5, "MANY": 10, "PODS_N": 10, "IDLE_S": 0.2, "SCENARIO": _TINY,
    "LARGE": {**_TINY, "driver": "gpu.example.com"},
}  # fmt: skip
_LARGE = {"QUIET_S": 0.5, "LASTS_S": 0.3, "CONNECTIONS": 2}
_RESUME = {
    "resume_bench": {"WATCHES": 40, "EVENTS": 4, "RATE": 2.0, "IDLE": 5, "PASSING": 1000},
    "storm_bench": {"QUIET_S": 0.5, "WITHIN_S": 0.0},
}
_STALL = {
    "stall_bench": {
        "CLIENTS": 2, "QUIET_S": 0.5, "SHORTEST_S": 0.3, "HOG_CONNECTIONS": 3, "HOG_OBJECTS": 20, "HOG_S": 0.5,
        "ATTACKED": 1, "WARM_S": 0.2,
    }
}  # fmt: skip
SHORT: dict[str, dict[str, dict[str, Any]]] = {
    "bus": {"bus_bench": {"EVENTS": 2_000, "TRIPS": 50, "ROUNDS": 1}},
    "fan-out": {"fanout_bench": {"FAN_OUT": ((10, 10, 100.0),), "ROUNDS": 1, "WAYS": _PLAIN}},
    "fan-out.turn": {"fanout_bench": {"CROWD": 20, "CHANGES": 1, "LEFT_S": 0.2}},
    "idle-watch": {"fanout_bench": {"IDLE": 20, "WAYS": _PLAIN}},
    "latency": {"watch_bench": {"WATCHERS": 20, "NAMESPACES": 2, "PACED": 20, "BUSY_S": 0.2, "BUSY_ROUNDS": 1}},
    "writes": {"write_bench": _WRITES, "cel_bench": {"WRITES": 3}},
    "writes.processes": {"processes_bench": {"PROCESSES": (1, 2), "WRITERS": 4, "SECONDS": 0.3}},
    "list": {"list_bench": {"PODS": 100, "LISTS": 1, "MANY": 600, "PAGE": 100}},
    "large.lists": {"large_bench": {"PODS": 600, "CHUNK": 100, **_LARGE}},
    "large.objects": {"large_bench": {"OBJECTS": 5, **_LARGE}},
    "large.many-objects": {"large_bench": {"MANY_OBJECTS": 6, **_LARGE}},
    "growth": {"growth_bench": {"FEW": 10, "MANY": 100, "WATCHERS": 5, "EVENTS": 10, "ROUNDS": 1}},
    "resume": _RESUME,
    "resume.certificates": _RESUME,
    "memory": {
        "memory_bench": {
            "WITHIN_S": 0.0, "WATCHES": 20, "ROUNDS": 1, "WARM": 5, "LISTED": 5, "LISTS": 5, "REFUSED": 3,
            "STRANGERS": 10, "WARM_S": 0.0,
        }
    },
    "etcd": {"etcd_bench": {"WATCHES": 5, "DEATHS": 1, **_WRITES}, "write_bench": _WRITES},
    "pleg": {"pleg_bench": {"SECONDS": 0.5, "EVENTS_PER_S": 400, "SETTLED_S": 1.0}},
    "pleg-idle": {"pleg_idle": {"SIZES": (1, 5), "REST_S": 0.0, "SAMPLE_S": 0.5}},
    "pleg-idle.many": {"pleg_idle": {"FEW": 1, "MANY": 5, "RESYNCED_S": 0.0, "PERIOD_S": 0.5}},
    "imports": {"import_bench": {"ROUNDS": 1}},
    "start": {"plane_bench": _PLANE},
    "idle": {"plane_bench": _PLANE},
    "recovery": {"plane_bench": _PLANE},
    "death": {"plane_bench": _PLANE},
    "death.busy": {"plane_bench": _BUSY, "pods_load": {"LIFE_S": 0.5}},
    "pods": {"pods_bench": {"COUNT": 5}},
    "recording": {"recording_bench": {"SECONDS": 2.0, "LIVE": 4}},
    "frontdoor": {
        "frontdoor_bench": {
            "DEVICES": 30, "TURNS": 10, "WARM": 1, "CROWD": 10, "CROWD_TURNS": 1, "PODS": 5, "CONTAINERS": 20,
            "LISTS": 10, "ROUNDS": 1, "RATE_S": 0.2, "FLOOD": 50,
        }
    },
    "devices.allocations": {"devices_bench": {"WORKERS": 5, "DEVICES": 10, "SECONDS": 0.2}},
    "devices.registration": {"devices_bench": {"MANY": 100, "TRIES": 1}},
    "fleet": {"fleet_bench": _FLEET},
    "fleet.dra": {"fleet_bench": {"CASES": ("dra-fill", "dra-extended"), "CASE_SIZE": ("--nodes", "2")}},
    "fleet.scale": {"fleet_bench": _FLEET},
    "health": {"health_bench": _HEALTH},
    "health.dra": {"health_bench": _HEALTH},
    "scheduler": {"scheduler_bench": {"NODES_N": 3, "DEVICES_N": 2, "FULL": 6, "SECONDS": 0.1, "MOST_ROUNDS": 2}},
    "scheduler.pods": {"scheduler_pods_bench": {"NODES_N": 10, "PODS_N": 20}},
    "scheduler.scale": {
        "scheduler_scale_bench": {
            "NODES_N": 30, "DEVICES_N": 8, "BURST": 20, "FLOW": 10.0, "FLOW_S": 1.0, "PATCH_FLOW": 5.0,
            "IMPOSSIBLE": 2, "PATCHES": 1, "SHARES": 20, "SHARED": 2,
        }
    },
    "simulation": {"simulation_bench": {"SECONDS": 1.0, "RUNS": 1, "LOADS": LOADS[:1]}},
    "size": {
        "size_bench": {"LOADS": (Point(20, 4, 2, 20.0),), "HOT": 20, "WARM_S": 0.1, "SECONDS": 0.3},
        "size_lab": {"WAITS_S": 60.0, "LISTED_S": 1.0},
    },
    "stall": _STALL,
    "stall.attacks": _STALL,
    "testing": {"testing_bench": {"STARTS": 1, "TESTS": 1}},
    "trace": {"trace_bench": {"TIMES": 5, "COUNT": 5, "IDLE_S": 0.5, "REST_S": 0.0}},
    "tracker": {
        "tracker_bench": {"DEVICES": 8, "ROUNDS": 1, "MANY": 100},
        "cel_bench": {"BATCH": 50, "ROUNDS": 1, "ENDS": 2},
    },
}  # fmt: skip
"""By bench, module and constant."""


@contextmanager
def shortened(name: str) -> Iterator[None]:
    """Run a bench with its short sizes. Raises AttributeError where a constant has gone."""
    changed = [
        (import_module(f"tests.bench.{module}"), constant, value)
        for module, constants in SHORT[name].items()
        for constant, value in constants.items()
    ]
    held = [(module, constant, getattr(module, constant)) for module, constant, _ in changed]
    try:
        for module, constant, value in changed:
            setattr(module, constant, value)
        yield
    finally:
        for module, constant, value in held:
            setattr(module, constant, value)
