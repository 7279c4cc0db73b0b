"""Containers that run on without their plane: `down` finds and stops them."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.process.files import is_locked
from protocols.process.mountinfo import mounts_below
from supervisor.plane.orphaned import orphaned
from tests.support.plane import Plane
from tests.support.waiting import until

POD = {"apiVersion": "v1", "kind": "Pod"}
SPEC = {"containers": [{"name": "c", "image": "none", "command": ["sleep", "1000"]}]}


def kill_supervisor(root: Path) -> None:
    pid_file = root / "run" / "supervisor.pid"
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    locks = [pid_file, *(root / "run").glob("*.lock")]
    until("every process of the plane has ended", lambda: not any(map(is_locked, locks)))


def test_down_stops_containers_of_all_nodes_of_dead_plane() -> None:
    with Plane("--node-name", "n1", "--nodes", "2") as plane:
        roots = {"n1": plane.root, "n1-2": plane.root / "nodes" / "n1-2"}
        for node in roots:
            plane.apply({**POD, "metadata": {"name": node}, "spec": {**SPEC, "nodeName": node}})
        for node in roots:
            plane.pod_ready(node)
        kill_supervisor(plane.root)
        assert orphaned(plane.root) == dict.fromkeys(roots.values(), 1)
        plane.nodeplane("down", "--keep-containers")
        assert orphaned(plane.root) == dict.fromkeys(roots.values(), 1)
        plane.nodeplane("down", timeout=100)
        assert orphaned(plane.root) == {}
        assert plane.processes() == {}
        assert not mounts_below(plane.root)
        plane.nodeplane("down")  # once more is no failure
        for root in roots.values():
            shutil.rmtree(root / "run")  # sockets of the killed processes


@pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN: mounts")
def test_down_unmounts_what_dead_plane_without_containers_had_mounted() -> None:
    with Plane() as plane:
        until("the tmpfs of secrets", (plane.root / "memory").is_mount)
        kill_supervisor(plane.root)
        plane.nodeplane("down", "--keep-containers")
        assert mounts_below(plane.root)
        plane.nodeplane("down")
        assert not mounts_below(plane.root)
        shutil.rmtree(plane.root / "run")  # sockets of the killed processes
