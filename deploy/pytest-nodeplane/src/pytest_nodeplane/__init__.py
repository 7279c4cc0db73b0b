"""A Kubernetes node for a test: the fixtures `plane` and `node`, and the types they return.

The types are imported when they are used: pytest loads this package in every run of a project that has it installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_nodeplane.conforming import Conform, NotConforming
    from pytest_nodeplane.drivers import PreparedDevice, PrepareFailed
    from pytest_nodeplane.node import Node
    from pytest_nodeplane.plane import Plane
    from pytest_nodeplane.processes import Process
    from pytest_nodeplane.resources import PodResources, Watch
    from pytest_nodeplane.waiting import NotReached, PodWait

__all__ = [
    "Conform",
    "Node",
    "NotConforming",
    "NotReached",
    "Plane",
    "PodResources",
    "PodWait",
    "PrepareFailed",
    "PreparedDevice",
    "Process",
    "Watch",
]
MODULES = {
    "Conform": "conforming",
    "Node": "node",
    "NotConforming": "conforming",
    "NotReached": "waiting",
    "Plane": "plane",
    "PodResources": "resources",
    "PodWait": "waiting",
    "PrepareFailed": "drivers",
    "PreparedDevice": "drivers",
    "Process": "processes",
    "Watch": "resources",
}


def __getattr__(name: str) -> object:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
