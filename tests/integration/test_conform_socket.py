"""`nodeplane conform --socket`: a plugin and a driver that run already are judged by their answers, and left alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from supervisor.conform.scripts import behaviours
from supervisor.conform.served import NO_REGISTER, NOT_OURS
from supervisor.conform.verdict import FAIL, NOT_APPLICABLE, PASS
from tests.support.plane import BIN, REPO
from tests.support.waiting import until

SAMPLE = REPO / "tests" / "support" / "conform_plugin.py"
NOT_BY_CALLS = {"idle", "health-change", "health-flaps", "many-devices"}
"""Behaviours of these phases that need processes, commands of the user, and more devices."""
CALLS = {behaviour.name for behaviour in behaviours() if behaviour.phase in ("list", "calls")} - NOT_BY_CALLS


@contextmanager
def serving(bug: str) -> Iterator[Path]:
    """Yield the socket of a sample that serves and registers nowhere."""
    with TemporaryDirectory(prefix="np", dir="/tmp") as kubelet:
        variables = {"NODEPLANE_KUBELET_DIR": kubelet, "CDI_ROOT": f"{kubelet}/cdi", "PYTHONPATH": str(REPO)}
        plugin = subprocess.Popen([sys.executable, str(SAMPLE), bug, "3", "served"], env=variables)
        sockets = Path(kubelet) / "device-plugins"
        try:
            until("it serves", lambda: any(sockets.glob("*.sock")))
            yield next(sockets.glob("*.sock"))
            assert plugin.poll() is None, "the plugin was ended"
        finally:
            plugin.kill()
            plugin.wait()


def conform(socket: Path, *words: str) -> tuple[int, dict[str, Any]]:
    cdi = socket.parent.parent / "cdi"
    command = [str(BIN / "nodeplane"), "conform", "-o", "json", "--timeout", "20", "--socket", str(socket), *words]
    variables = {**os.environ, "CDI_ROOT": str(cdi)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_plugin_that_runs_already_passes_what_needs_only_calls_and_lives_on() -> None:
    with serving("none") as socket:
        code, report = conform(socket)
    found = {behaviour["name"]: behaviour for behaviour in report["behaviours"]}
    assert (code, report["command"]) == (0, f"--socket {socket}")
    passed = {name for name, each in found.items() if each["verdict"] == PASS}
    assert passed == CALLS
    assert found["plugin-killed"]["reason"] == found["ends-at-sigterm"]["reason"] == NOT_OURS
    assert found["version"]["reason"] == NO_REGISTER
    assert found["pre-start"]["exchanges"], "the calls are the evidence"


def test_bug_of_a_plugin_that_runs_already_is_found() -> None:
    with serving("starts_a_container_once") as socket:
        code, report = conform(socket, "--only", "pre-start,device-ids")
    verdicts = {behaviour["name"]: behaviour["verdict"] for behaviour in report["behaviours"]}
    assert (code, verdicts) == (1, {"device-ids": PASS, "pre-start": FAIL})


def test_driver_that_runs_already_is_judged_by_its_registration_socket() -> None:
    only = "registers,plugin-info,slices-published,prepare-again,cdi-files,kubelet-restarts,driver-killed"
    script = f"""
        nodeplane dra-driver --driver gpu.example.com --devices 2 >&2 & driver=$!
        until nodeplane devices --drivers -o json | grep -q gpu.example.com; do sleep 0.2; done
        socket=$(echo $NODEPLANE_KUBELET_DIR/plugins_registry/*.sock)
        nodeplane conform --kind dra --timeout 20 -o json --only {only} --socket $socket || exit
        kill -0 $driver && test -S $socket
    """
    command = [str(BIN / "nodeplane"), "test", "--", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {behaviour["name"]: behaviour["verdict"] for behaviour in json.loads(done.stdout)["behaviours"]}
    assert verdicts == {**dict.fromkeys(only.split(","), PASS), "driver-killed": NOT_APPLICABLE}
