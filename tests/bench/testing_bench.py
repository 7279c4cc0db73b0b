"""Figures of pytest-nodeplane: a plane for a session of tests, and what one test waits for before and after it runs."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.plane_bench import bare_python
from tests.bench.row import Row, Unmeasured, at_most

if TYPE_CHECKING:
    from pytest_nodeplane import Node, Plane

SOURCE = Path(__file__).parents[2] / "deploy" / "pytest-nodeplane" / "src"
GPU = "example.com/gpu"
STARTS, TESTS = 5, 10
START_LIMIT_S, RESET_LIMIT_S = 1.5, 0.3


def run() -> list[Row]:
    """Floor of the start: importing the same libraries once.

    A reset has no floor: its processes and containers end in their own time.
    """
    if find_spec("pytest_nodeplane") is None:
        sys.path.append(str(SOURCE))
    if find_spec("pytest_nodeplane") is None:
        raise Unmeasured("pytest-nodeplane is not installed")
    starts, resets = [], []
    for number in range(STARTS):
        plane, seconds = _started()
        starts.append(seconds)
        if number == STARTS - 1:
            resets = _resets(plane)
        plane.stop()
    return [
        at_most("pytest-nodeplane, plane of a session", starts, "s", START_LIMIT_S, bare_python()),
        at_most("pytest-nodeplane, end of a test to the next", resets, "s", RESET_LIMIT_S),
    ]


def _started() -> "tuple[Plane, float]":
    from pytest_nodeplane import Plane

    plane, began = Plane([]), time.perf_counter()
    plane.start()
    return plane, time.perf_counter() - began


def _resets(plane: "Plane") -> list[float]:
    """Time from the end of a test with a plugin and a pod that holds a device to the begin of the next one's body."""
    from pytest_nodeplane import Node

    found, node = [], Node(plane)
    node.begin()
    for _ in range(TESTS):
        _use(node)
        began = time.perf_counter()
        node.end()
        node = Node(plane)
        node.begin()
        found.append(time.perf_counter() - began)
    node.end()
    return found


def _use(node: "Node") -> None:
    node.plugin(GPU, devices=2)
    node.apply(_pod())
    node.wait("a").running()


def _pod() -> dict[str, Any]:
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": {"limits": {GPU: 1}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
