"""kill -9 of the whole plane: nothing but containers is left, and the next start takes up where it was."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.mistreat import kill_all, kill_whole, of_the_plane
from tests.support.plane import BIN, Plane, until, until_nothing
from tests.support.witnesses import Witnesses, container_of, device_health, main_status, pod, with_devices

ALL_GONE_S = 15.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with two pods that hold devices."""
    with Plane() as plane:
        with_devices(plane)
        plane.apply(pod("first", devices=2))
        plane.apply(pod("second", devices=1))
        plane.pod_ready("first")
        plane.pod_ready("second")
        yield plane
        plane.settled()


def test_the_supervisor_killed(plane: Plane) -> None:
    """Everything else of the plane ends with it, at once; stale sockets and pid files are no obstacle."""
    with Witnesses(plane):
        _kill_and_start(plane, [supervisor(plane)])


def test_every_process_killed(plane: Plane) -> None:
    with Witnesses(plane):
        _kill_and_start(plane, list(of_the_plane(plane)))


def test_killed_while_it_starts(plane: Plane) -> None:
    """A start cut short, early or late, is like any other kill."""
    with Witnesses(plane):
        _kill_and_start(plane, [supervisor(plane)], cut_short=(0.2, 0.6))


def test_a_container_that_ends_while_nothing_runs(plane: Plane) -> None:
    with Witnesses(plane):
        (pid, devices), other = container_of(plane, "first"), container_of(plane, "second")
        os.kill(supervisor(plane), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        assert not until_nothing(lambda: of_the_plane(plane), ALL_GONE_S)
        plane.up()
        until("a new container", lambda: container_of(plane, "first")[0] not in (0, pid))
        status = until("told", lambda: ended(plane, "first"), every=0.1)
        assert status["lastState"]["terminated"]["exitCode"] == 137
        assert container_of(plane, "first")[1] == devices
        assert container_of(plane, "second") == other


def _kill_and_start(plane: Plane, victims: list[int], cut_short: tuple[float, ...] = ()) -> None:
    before = {name: container_of(plane, name) for name in ("first", "second")}
    kill_all(victims)
    assert not until_nothing(lambda: of_the_plane(plane), ALL_GONE_S)
    assert (plane.root / "run" / "supervisor.pid").exists()
    for after in cut_short:
        _start_and_kill(plane, after)
    plane.up()
    for name, (pid, devices) in before.items():
        until("devices Healthy", lambda name=name: set(device_health(plane.get("pod", name)).values()) == {"Healthy"})
        assert container_of(plane, name) == (pid, devices)
        assert main_status(plane.get("pod", name))["restartCount"] == 0


def _start_and_kill(plane: Plane, after: float) -> None:
    flags = ["--detach", "--port", "0", "--metrics-port", "0", "--store-sync", "normal"]
    with subprocess.Popen([BIN / "nodeplane", "up", *flags], env=plane.environment, stderr=subprocess.DEVNULL) as start:
        time.sleep(after)
        kill_whole(plane)
        start.wait(60)


def supervisor(plane: Plane) -> int:
    return int((plane.root / "run" / "supervisor.pid").read_text())


def ended(plane: Plane, name: str) -> dict[str, dict[str, dict[str, int]]]:
    status = main_status(plane.get("pod", name))
    return status if status.get("restartCount") == 1 and status.get("ready") else {}
