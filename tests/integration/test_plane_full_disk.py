"""A plane whose disk takes no byte more: writes say so, reads and watches go on, and with space everything goes on."""

import contextlib
import http.client
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.insults import refused
from tests.support.mistreat import hit, replaced
from tests.support.plane import Plane, until
from tests.support.plane_client import connect
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.witnesses import (
    Witnesses,
    container_of,
    device_health,
    lives,
    main_status,
    others,
    pod,
    with_devices,
)

pytestmark = pytest.mark.root
NO_SPACE = "database space exceeded"
KILLED = ("store", "watchcache", "apiserver-0", "runtime", "cri", "devices", "podworker")


@pytest.fixture(scope="module")
def disk_and_plane() -> Iterator[tuple[SmallDisk, Plane]]:
    """A plane on a small disk, with a resident pod."""
    plane = Plane()
    with small_disk(plane.root, 32) as disk, plane:
        with_devices(plane)
        plane.apply(pod("resident", devices=1))
        plane.pod_ready("resident")
        yield disk, plane
        disk.free()
        plane.settled()
    plane.root.rmdir()  # as a mount point it was in use when the plane removed it


def test_writes_fail_by_status_and_reads_and_watches_go_on(disk_and_plane: tuple[SmallDisk, Plane]) -> None:
    disk, plane = disk_and_plane
    before = lives(plane)
    with Witnesses(plane) as witnesses:
        disk.fill()
        until("writes refused", lambda: create(plane, "one-more")[0] == 500)
        code, status = create(plane, "refused")
        assert (code, status["kind"], NO_SPACE in status["message"]) == (500, "Status", True), status
        acknowledged, joined = len(witnesses.writer.acknowledged), witnesses.configmaps.reconnects
        assert main_status(plane.get("pod", "resident"))["ready"]
        assert not plane.get("configmap", "refused")
        assert list(witnesses.resources.listed()) == ["resident"]
        assert plane.nodeplane("devices").count("example.com/gpu") == 4
        assert len(witnesses.writer.acknowledged) == acknowledged
        disk.free()
        until("writes again", lambda: len(witnesses.writer.acknowledged) > acknowledged + 3)
        until("their events", lambda: len(witnesses.configmaps.events) >= len(witnesses.writer.acknowledged))
        assert witnesses.configmaps.reconnects == joined
    assert lives(plane) == before


def test_actors_killed_on_a_full_disk_come_back_on_it(disk_and_plane: tuple[SmallDisk, Plane]) -> None:
    disk, plane = disk_and_plane
    before, container = lives(plane), container_of(plane, "resident")
    with Witnesses(plane):
        disk.fill()
        replaced(plane, hit(plane, *KILLED))
        plane.settled()
        assert main_status(plane.get("pod", "resident"))["ready"]
        assert container_of(plane, "resident") == container
        disk.free()
        plane.apply(pod("visitor", devices=3))
        plane.pod_ready("visitor")
        plane.delete("pod", "visitor")
    assert others(lives(plane), *KILLED) == others(before, *KILLED)
    assert main_status(plane.get("pod", "resident"))["restartCount"] == 0


def test_a_device_order_on_a_full_disk_is_refused_or_kept(disk_and_plane: tuple[SmallDisk, Plane]) -> None:
    """What `chaos device` acknowledged outlives the device manager."""
    disk, plane = disk_and_plane
    device = next(iter(device_health(plane.get("pod", "resident"))))
    with Witnesses(plane):
        disk.fill()
        words = ("chaos", "device", "example.com/gpu", device, "unhealthy")
        code, line = refused(*words, environment=plane.environment)
        assert (code, "No space left" in line) == (1, True), line
        disk.free()
        plane.nodeplane(*words)
        plane.kill("devices")
        until("unhealthy", lambda: device_health(plane.get("pod", "resident")) == {device: "Unhealthy"}, every=0.1)
        # The status is from before the kill until the plugin has registered with the new process.
        healthy = (*words[:-1], "healthy")
        until("the device is back", lambda: run_command(healthy, plane.environment, 60).returncode == 0, every=0.1)
        until("healthy", lambda: device_health(plane.get("pod", "resident")) == {device: "Healthy"}, every=0.1)


def test_a_start_on_a_full_disk_is_refused(disk_and_plane: tuple[SmallDisk, Plane]) -> None:
    """The plane was killed on it: the containers go on, and with space the next start takes them over."""
    disk, plane = disk_and_plane
    container = container_of(plane, "resident")
    with Witnesses(plane):
        disk.fill()
        os.kill(int((plane.root / "run" / "supervisor.pid").read_text()), signal.SIGKILL)
        code, line = refused("up", "--detach", "--port", "0", "--metrics-port", "0", environment=plane.environment)
        assert (code, "No space left on device; free some space" in line) == (1, True), line
        disk.free()
        plane.up()
        plane.pod_ready("resident")
        assert container_of(plane, "resident") == container
        assert main_status(plane.get("pod", "resident"))["restartCount"] == 0


def test_a_container_that_ends_on_a_full_disk_is_reported_later(
    disk_and_plane: tuple[SmallDisk, Plane], tmp_path: Path
) -> None:
    disk, plane = disk_and_plane
    script = f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done; exit 7"
    plane.apply(pod("mortal", script, restartPolicy="Never"))
    plane.pod_ready("mortal")
    assert running(script), "a shell that forks shows twice for a moment"
    with Witnesses(plane):
        disk.fill()
        (tmp_path / "end").touch()
        until("its end", lambda: not running(script))
        plane.kill("runtime")
        disk.free()
        ended = main_status(plane.pod_phase("mortal", "Failed"))["state"]["terminated"]
        assert ended["exitCode"] == 7
        plane.delete("pod", "mortal")


def running(script: str) -> list[int]:
    """Pids of shells that run exactly this."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and script.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def create(plane: Plane, name: str) -> tuple[int, dict[str, str]]:
    """A configmap of 100 kB: no log page has room for it."""
    connection = connect(plane.root)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "x" * 100_000}}
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/v1/namespaces/default/configmaps", json.dumps(body), headers)
        with connection.getresponse() as answer:
            return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException) as error:
        return 0, {"message": str(error)}
    finally:
        connection.close()
