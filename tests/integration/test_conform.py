"""`nodeplane conform` as users call it: reports, exit codes, usage errors, and nothing left behind."""

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from protocols.process.sockets import answers
from supervisor.cli.main import main
from supervisor.conform.scripts import behaviours
from supervisor.conform.verdict import FAIL
from tests.support.plane import BIN, REPO
from tests.support.waiting import until

SAMPLE = REPO / "tests" / "support" / "conform_plugin.py"
BEHAVIOURS = {behaviour.name: behaviour for behaviour in behaviours()}


def conform(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(BIN / "nodeplane"), "conform", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_simulated_plugin_passes_and_reports_are_written(tmp_path: Path) -> None:
    plugin = [str(BIN / "nodeplane"), "plugin", "--resource", "example.com/gpu", "--devices", "3"]
    files = ["--junit", str(tmp_path / "junit.xml"), "--html", str(tmp_path / "page.html")]
    done = conform("-o", "json", "--timeout", "20", *files, "--", *plugin)
    report = json.loads(done.stdout)
    assert {
        behaviour["name"]: behaviour["reason"] for behaviour in report["behaviours"] if behaviour["verdict"] == FAIL
    } == {}
    assert (done.returncode, report["verdict"]) == (0, "pass")
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("tests") == str(len(BEHAVIOURS))
    assert "allocate-unknown" in (tmp_path / "page.html").read_text()


def test_failure_is_printed_with_rule_advice_and_bytes() -> None:
    done = conform("--only", "health-words", "--", sys.executable, str(SAMPLE), "writes_healthy_small")
    assert done.returncode == 1, done.stderr
    assert "gpu-0 has the health 'healthy'" in done.stdout
    assert "exactly Healthy or Unhealthy" in done.stdout
    assert b"healthy".hex(" ") in done.stdout
    assert done.stdout.splitlines()[-1].startswith("0 pass, 1 fail, 0 not applicable")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--", "no-such-program"), "no-such-program: not found"),
        ((), "one program is judged"),
        (("--only", "nope", "--", "true"), "no behaviour is called 'nope'"),
        (("--kind", "dra", "--profile", "nvidia", "--", "true"), "--profile is about resources"),
        (("--shows", "true", "--", "true"), "give --kind agent"),
        (("--kind", "agent", "--break", "true", "--", "true"), "an agent has none"),
        (("--kubelet-dir", "/x", "--socket", "/y"), "are for programs that register"),
        (("--profile", "nvidia", "--socket", "/y"), "are for programs that register"),
        (("--timeout", "0", "--", "true"), "--timeout must be"),
        (("--junit", "/gone/x", "--", "true"), "--junit /gone/x: No such file or directory"),
    ],
)
def test_usage_error_ends_with_two(words: Sequence[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", *words]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["plugin", "dra", "agent"])
def test_directory_of_a_kubelet_that_runs_is_left_alone(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its socket was removed, and no plugin registered with it again."""
    (path := tmp_path / "device-plugins" / "kubelet.sock").parent.mkdir()
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(str(path))
        kubelet.listen()
        assert main(["conform", "--kind", kind, "--kubelet-dir", str(tmp_path), "--", "true"]) == 2
        assert answers(path)
    assert f"a kubelet serves {path}; stop it" in capsys.readouterr().err


def test_nothing_is_left_in_a_given_directory(tmp_path: Path) -> None:
    assert main(["conform", "--kubelet-dir", str(tmp_path), "--only", "registers", "--", "true"]) == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"device-plugins", "plugins_registry"}


def test_own_behaviours_are_judged(tmp_path: Path) -> None:
    script = '"""It has devices."""\nPHASE, RULE, SOURCE, ADVICE = "list", "r", "s", "a"\n'
    (tmp_path / "has_devices.py").write_text(f"{script}async def check(plugin):\n    assert plugin.devices\n")
    done = conform("--behaviours", str(tmp_path), "--only", "has-devices", "--", sys.executable, str(SAMPLE), "none")
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sleep 300 & echo $! > {pid}; exec {sys.executable} {SAMPLE} none"
    done = conform("--only", "registers", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_signal_ends_the_program_and_the_run(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}; exec {sys.executable} {SAMPLE} never_registers"
    command = [str(BIN / "nodeplane"), "conform", "--timeout", "60", "--", "sh", "-c", script]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until("the program runs", lambda: pid.exists() and pid.read_text().endswith("\n"))
    run.terminate()
    _, errors = run.communicate(timeout=60)
    assert (run.returncode, errors) == (1, "nodeplane: a signal ended it before all behaviours were judged\n")
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_simulated_driver_passes_on_a_plane_of_its_own(tmp_path: Path) -> None:
    driver = [str(BIN / "nodeplane"), "dra-driver", "--devices", "2"]
    only = "registers,slices-published,prepare-again,errors-apart,cdi-files,unprepare-again,health-report"
    files = ["--junit", str(tmp_path / "junit.xml")]
    done = conform("--kind", "dra", "-o", "json", "--timeout", "20", "--only", only, *files, "--", *driver)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["counts"] == {"pass": len(only.split(",")), "fail": 0, "not applicable": 0}
    calls = {exchange["method"] for behaviour in report["behaviours"] for exchange in behaviour["exchanges"]}
    assert {"GetInfo", "NodePrepareResources", "NodeUnprepareResources", "NodeWatchResources"} <= calls


def test_watch_command_passes_as_agent_of_a_profile(tmp_path: Path) -> None:
    script = f'cd {tmp_path}; exec nodeplane watch pods -o json --retry --socket "$NODEPLANE_POD_RESOURCES" > shown'
    shows = ["--shows", f"tail -n 1 {tmp_path}/shown | grep -v DELETED"]
    flags = ["--profile", "nvidia", "--timeout", "20", "--only", "calls,shows-pods,server-restarts", *shows]
    done = conform("--kind", "agent", "-o", "json", *flags, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["counts"] == {"pass": 3, "fail": 0, "not applicable": 0}
    assert "nvidia.com/gpu" in done.stdout
