"""Containers that run on without their plane: `down` finds and stops them."""

import os
import signal
from pathlib import Path

import pytest

from protocols.process.files import is_locked
from supervisor.plane.orphaned import orphaned
from tests.support.plane import Plane
from tests.support.waiting import until

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "none", "command": ["sleep", "1000"]}]},
}


def end_supervisor(root: Path, number: int) -> None:
    pid_file = root / "run" / "supervisor.pid"
    os.kill(int(pid_file.read_text()), number)
    locks = [pid_file, *(root / "run").glob("*.lock")]
    until("every process of the plane has ended", lambda: not any(map(is_locked, locks)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_down_stops_containers_of_dead_plane(number: int) -> None:
    with Plane() as plane:
        plane.apply(POD)
        plane.pod_ready("p")
        end_supervisor(plane.root, number)
        assert orphaned(plane.root) == {plane.root: 1}
        plane.nodeplane("down", "--keep-containers")
        assert orphaned(plane.root) == {plane.root: 1}
        plane.nodeplane("down", timeout=100)
        assert orphaned(plane.root) == {}
        assert plane.processes() == {}
        plane.nodeplane("down")  # once more is no failure
        plane.up()
        plane.pod_ready("p")


def test_down_stops_containers_of_further_nodes_of_dead_plane() -> None:
    with Plane("--nodes", "2") as plane:
        name = next(path.name for path in (plane.root / "nodes").iterdir())
        plane.apply({**POD, "spec": {**POD["spec"], "nodeName": name}})  # type: ignore[dict-item]  # a dict it is
        plane.pod_ready("p")
        end_supervisor(plane.root, signal.SIGKILL)
        assert orphaned(plane.root) == {plane.root / "nodes" / name: 1}
        plane.nodeplane("down", timeout=100)
        assert plane.processes() == {}
        plane.up()
