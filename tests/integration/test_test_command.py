"""`nodeplane test -- COMMAND`: the plane it starts, what the command finds, and what is left afterwards."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.root.lock import supervisors
from tests.support.plane import BIN, until
from tests.support.runtime import alive

NODEPLANE = str(BIN / "nodeplane")


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nptc", dir="/tmp") as path:
        yield Path(path)


def variables() -> dict[str, str]:
    """Return the environment of a user who has a plane of his own, which a test must not touch."""
    return {**os.environ, "NODEPLANE_ROOT": "/nonexistent/root", "NODEPLANE_KUBELET_DIR": "/nonexistent/kubelet"}


SCRIPT = """
set -e
test "$(kubectl get nodes -o name)" = "node/$NODE_NAME"
test -S "$NODEPLANE_KUBELET_DIR/device-plugins/kubelet.sock"
test -S "$NODEPLANE_POD_RESOURCES"
test "$CDI_ROOT" = "$NODEPLANE_ROOT/cdi"
test -S "${CONTAINER_RUNTIME_ENDPOINT#unix://}"
nodeplane status >status
sleep 600 >/dev/null &
echo $! >orphan
echo "$NODEPLANE_ROOT" >root
"""


def test_command_finds_its_plane_and_nothing_is_left_of_either(place: Path) -> None:
    done = subprocess.run(
        [NODEPLANE, "test", "--node-name=n1", "--", "sh", "-c", SCRIPT],
        cwd=place,
        env=variables(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "devices" in (place / "status").read_text()
    root = Path((place / "root").read_text().strip())
    assert not root.exists()
    assert not list(root.parent.glob(f"{root.name}*"))
    assert not alive(int((place / "orphan").read_text()))


TRAPPED = "trap 'exit 7' TERM; echo $NODEPLANE_ROOT >root; while :; do sleep 0.05; done"


def test_signal_reaches_the_command_and_its_failure_keeps_logs_but_no_keys(place: Path) -> None:
    command = [NODEPLANE, "test", "--logs", "kept", "--", "sh", "-c", TRAPPED]
    process = subprocess.Popen(command, cwd=place, env=variables(), stderr=subprocess.PIPE, text=True)
    try:
        until("the command runs", lambda: (place / "root").exists() and (place / "root").read_text())
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 7
    assert "sh ended with 7; logs of the plane: kept" in stderr
    kept = {path.name for path in (place / "kept").iterdir()}
    assert {"logs", "up.log", "status.txt", "devices.txt", "events.txt"} <= kept
    assert (place / "kept" / "logs" / "devices.log").exists()
    assert not [path for path in (place / "kept").rglob("*") if path.suffix in (".key", ".crt")]
    assert not Path((place / "root").read_text().strip()).exists()


def test_rejected_flag_is_one_line_and_the_command_does_not_run(place: Path) -> None:
    command = [NODEPLANE, "test", "--logs", "kept", "--log-level", "loud", "--", "touch", "ran"]
    done = subprocess.run(command, cwd=place, env=variables(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("nodeplane: --log-level 'loud' is none of")
    assert list(place.iterdir()) == []


LEFT_ALONE = "echo $$ >pid; echo $NODEPLANE_ROOT >root; exec sleep 600"


def test_plane_ends_with_its_root_when_its_starter_is_killed(place: Path) -> None:
    process = subprocess.Popen([NODEPLANE, "test", "--", "sh", "-c", LEFT_ALONE], cwd=place, env=variables())
    until("the command runs", lambda: (place / "root").exists() and (place / "root").read_text())
    root = Path((place / "root").read_text().strip())
    try:
        assert supervisors(root / "run")
        process.kill()
        process.wait()
        until("the plane has ended", lambda: not supervisors(root / "run"))
        until("its root with keys is removed", lambda: not root.exists())
    finally:
        process.kill()
        os.kill(int((place / "pid").read_text()), signal.SIGKILL)  # nobody is left who could
        shutil.rmtree(root, ignore_errors=True)


LEAVES_ALL = """
kubectl get namespace,crd,pod -A -o name | grep left
kubectl get node "$NODE_NAME" -o jsonpath='{.spec.taints[*].key}'
test "$(cat fails)" = no || exit 3
kubectl create namespace left && kubectl run left --image=any -n left
kubectl taint node "$NODE_NAME" left=x:NoSchedule
"""


@pytest.mark.heavy
def test_watch_runs_the_command_again_after_a_save_on_a_plane_that_has_nothing_of_the_last_run(place: Path) -> None:
    (place / "test.sh").write_text(LEAVES_ALL)
    (place / "fails").write_text("no")
    command = [NODEPLANE, "test", "--watch", "test.sh", "fails", "--logs", "kept", "--", "sh", "test.sh"]
    with (place / "said").open("w") as said, (place / "out").open("w") as out:
        process = subprocess.Popen(command, cwd=place, env=variables(), stdout=out, stderr=said)
    try:
        until("the first run has passed", lambda: "passed in" in (place / "said").read_text())
        first = (place / "out").read_text()
        (place / "fails").write_text("yes")
        until("the second run has failed", lambda: "failed with 3 in" in (place / "said").read_text())
        assert (place / "out").read_text() == first, "the second run saw what the first left"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 3
    finally:
        process.kill()
        process.wait()
    assert "namespace/left created" in first
    assert "fails was saved" in (place / "said").read_text()
    assert (place / "kept" / "events.txt").exists()
