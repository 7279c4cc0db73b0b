"""kill -9 of the whole plane: nothing but containers is left, and the next start takes up where it was."""

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

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


def test_killed_while_it_starts(plane: Plane) -> None:
    """All else ends with the supervisor; stale files are no obstacle; nor is a start cut short, early or late."""
    with Witnesses(plane):
        _kill_and_start(plane, [supervisor(plane)], cut_short=(0.2, 0.6))


@pytest.mark.scenario("K2")
def test_containers_that_end_while_nothing_runs(plane: Plane, tmp_path: Path) -> None:
    """Every process of the plane is killed; one container is killed meanwhile, and `survivor` completes."""
    gate = tmp_path / "gate"
    with Witnesses(plane):
        plane.apply(pod("survivor", f"while [ ! -e {gate} ]; do sleep 0.1; done", restartPolicy="Never"))
        running = main_status(plane.pod_phase("survivor", "Running"))
        (pid, devices), other = container_of(plane, "first"), container_of(plane, "second")
        kill_all([*of_the_plane(plane), pid])
        assert not until_nothing(lambda: of_the_plane(plane), ALL_GONE_S)
        gate.touch()
        shim = plane.root / "runtime" / "shims" / running["containerID"].rpartition("/")[2]
        until("the container's end", (shim / "exit.json").exists)
        plane.up()
        completed = main_status(plane.pod_phase("survivor", "Succeeded"))
        assert (completed["containerID"], completed["restartCount"]) == (running["containerID"], 0)
        reported = completed["state"]["terminated"]
        assert (reported["reason"], reported["exitCode"]) == ("Completed", 0)
        assert reported["startedAt"] == running["state"]["running"]["startedAt"]
        until("a new container", lambda: container_of(plane, "first")[0] not in (0, pid))
        status = until("told", lambda: ended(plane, "first"), every=0.1)
        assert status["lastState"]["terminated"]["exitCode"] == 137
        assert container_of(plane, "first")[1] == devices
        assert container_of(plane, "second") == other


def health_of(plane: Plane, name: str) -> set[str]:
    return set(device_health(plane.get("pod", name)).values())


def _kill_and_start(plane: Plane, victims: list[int], cut_short: tuple[float, ...] = ()) -> None:
    before = {name: container_of(plane, name) for name in ("first", "second")}
    kill_all(victims)
    assert not until_nothing(lambda: of_the_plane(plane), ALL_GONE_S)
    assert (plane.root / "run" / "supervisor.pid").exists()
    for after in cut_short:
        _start_and_kill(plane, after)
    plane.up()
    for name, (pid, devices) in before.items():
        until("devices Healthy", partial(health_of, plane, name), good=lambda found: found == {"Healthy"})
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
