"""`nodeplane calls` as users run it beside a plane: names that nothing has, and following through a restart."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.plane import BIN, Plane, until
from tests.support.shared_fixtures import whole_plane

RESOURCE, LISTED = "example.com/gpu", "capacity 4, allocatable 4"
pytestmark = pytest.mark.usefixtures("terminal_signals")

plane = whole_plane


class Follower:
    """`nodeplane calls ... -f` with its output in files."""

    def __init__(self, plane: Plane, *words: str) -> None:
        self._out, self._err = (Path(plane.root, f"calls-{len(plane.plugins)}.{name}") for name in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [str(BIN / "nodeplane"), "calls", *words, "-f"]
            self._process = subprocess.Popen(command, env=plane.environment, stdout=out, stderr=err)
        plane.plugins.append(self._process)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(20)


def lists(plane: Plane) -> int:
    return plane.nodeplane("calls", RESOURCE, check=False).count(LISTED)


def test_calls_of_an_unknown_name_are_waited_for_or_an_error_that_names_the_others(plane: Plane) -> None:
    follower = Follower(plane, RESOURCE)
    until("it waits", lambda: f"waiting for {RESOURCE}: no resource or driver" in follower.err)
    plane.plugin(RESOURCE)
    until("its first list", lambda: LISTED in follower.out)
    command = [str(BIN / "nodeplane"), "calls", "example.com/gpuu"]
    done = subprocess.run(command, env=plane.environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"nodeplane: no resource or driver is called 'example.com/gpuu'; there are: {RESOURCE}\n"
    assert follower.interrupt() == 0


def test_follower_goes_on_when_the_device_manager_is_killed(plane: Plane) -> None:
    follower = Follower(plane, RESOURCE)
    until("the record", lambda: follower.out.count("  Register  OK") == 1)
    plane.kill("devices")
    until("the next registration", lambda: follower.out.count("  Register  OK") == 2)
    until("the next list", lambda: follower.out.count(LISTED) == 2)
    assert follower.err == "# the device manager restarted: earlier records are lost\n"
    assert follower.interrupt() == 0


def test_capture_writes_a_script_that_only_its_user_reads(plane: Plane) -> None:
    before = lists(plane)
    plane.plugin(RESOURCE)
    until("its own first list", lambda: lists(plane) > before)
    path = Path(plane.root, "bug.yaml")
    plane.nodeplane("capture", RESOURCE, "--since", "0", "-o", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert f"resource: {RESOURCE}\ndevices:\n- id: gpu-0\n" in path.read_text()
    command = [str(BIN / "nodeplane"), "capture", "example.com/gpuu"]
    done = subprocess.run(command, env=plane.environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"nodeplane: no resource or driver is called 'example.com/gpuu'; there are: {RESOURCE}\n"
