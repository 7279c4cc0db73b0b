"""`nodeplane test` before it starts a plane, and the parts of what a failed test leaves."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from protocols.process.settings import save_settings
from supervisor.cli.commands import parser_of
from supervisor.cli.main import main
from supervisor.testing import command, plane, programs, run
from supervisor.testing.evidence import event_line, log_tails
from supervisor.testing.plane import LINES, OF_THE_ROOT, last_lines, remove_root, without
from tests.support.settings import plane_settings


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["test"], 2, "a command is missing"),
        (["test", "--"], 2, "a command is missing"),
        (["test", "--", "no-such-program"], 127, "not found"),
        (["test", "--", "/etc/passwd"], 126, "not executable"),
        (["test", "--", "/nonexistent/x"], 127, "not found"),
        (["test", "--root", "/tmp/" + "x" * 100, "--", "true"], 2, "use a shorter --root"),
    ],
)
def test_command_that_cannot_run_has_the_exit_code_of_a_shell(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("embedded", "directory"), [(True, "{root}/cdi"), (False, "/var/run/cdi")])
def test_command_finds_the_directory_that_the_runtime_reads_cdi_files_from(
    embedded: bool, directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = plane_settings(tmp_path, runtime_embedded=embedded)
    settings.layout.run.mkdir()
    save_settings(settings.layout.settings, settings)
    monkeypatch.setattr(plane, "ask", lambda where, question: SimpleNamespace(endpoints={}))
    found = plane.environment_of(settings.layout)
    assert found["CDI_ROOT"] == directory.format(root=tmp_path)
    assert found["NODE_NAME"] == "n1"


def test_flags_before_the_command_go_to_the_plane_and_those_after_stay() -> None:
    words = ["test", "--nodes", "2", "--reserved-memory", "a", "--reserved-memory", "b", "--", "pytest", "--port", "1"]
    args = parser_of([command]).parse_args(words)
    assert command.flags_of(args) == ["--nodes=2", "--reserved-memory=a", "--reserved-memory=b"]
    assert args.words[-3:] == ["pytest", "--port", "1"]


def test_search_path_ends_with_the_installation() -> None:
    assert plane.search_path().split(os.pathsep)[-1] == str(Path(sys.executable).parent)


def test_children_that_ignore_the_first_signal_are_killed() -> None:
    code = "import sys, time; from supervisor.testing import run; run.LEFT_S = 0.3\n"
    code += "import subprocess as s\n"
    code += "p = s.Popen(['sh', '-c', 'trap : TERM; echo; while :; do sleep 1; done'], stdout=s.PIPE)\n"
    code += "p.stdout.read(1); run.end_children(); sys.exit(run._reap_all())"
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


def test_evidence_is_written_without_the_rest_of_the_root(tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "a" / "kept"
    for name in ("logs/devices.log", "pods-logs/x/0.log", "pki/ca.key", "up.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    run.write_evidence(root, {"status": "s"}, target)
    run.write_evidence(root, {"status": "t"}, target)  # a second failure into the same directory
    files = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
    assert files.pop("status.txt") == "t"
    assert files == {name: name for name in ("logs/devices.log", "pods-logs/x/0.log", "up.log")}


def test_variables_of_another_root_are_dropped() -> None:
    given = {"NODEPLANE_ROOT": "/r", "NODEPLANE_NODES": "2", "HOME": "/h"}
    assert without(given, OF_THE_ROOT) == {"NODEPLANE_NODES": "2", "HOME": "/h"}


def test_log_tails_have_the_last_lines_of_logs_that_are_not_empty(tmp_path: Path) -> None:
    (tmp_path / "devices.log").write_text("\n".join(map(str, range(100))))
    (tmp_path / "cri.log").touch()
    (tmp_path / "audit.log").write_text("{}")
    tails = log_tails(tmp_path)
    assert list(tails) == ["log devices"]
    assert tails["log devices"].splitlines()[0] == "75"


def test_event_line_survives_an_event_without_an_object() -> None:
    assert event_line({"type": "Warning", "reason": "R", "message": "m"}) == "Warning  R  //  m"


def test_root_without_mounts_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "logs").mkdir(parents=True)
    remove_root(root)
    assert not root.exists()


def test_last_lines_are_each_once_and_without_the_name_of_the_program() -> None:
    waiting = "nodeplane: still waiting; cri: no runtime\n"
    assert last_lines(f"\nsupervisor starts\n{waiting * 9}") == ["supervisor starts", "still waiting; cri: no runtime"]
    assert len(last_lines("\n".join(map(str, range(100))))) == LINES


def running_group(*words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE)


def test_recorded_programs_end_with_the_children_of_their_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "STOP_S", 0.2)
    loop = "trap '' TERM; echo; while :; do sleep 1; done"
    with running_group("sh", "-c", loop) as stubborn, running_group("sh", "-c", "sleep 60 & echo") as ended:
        for process in (stubborn, ended):
            programs.record(tmp_path / "programs", process.pid)
            assert process.stdout
            process.stdout.readline()
        ended.wait(10)
        programs.end_all(tmp_path / "programs")
        assert stubborn.wait(10) == -signal.SIGKILL
        assert ended.stdout
        assert ended.stdout.read() == b"", "its child held the other end"


def test_process_that_has_the_pid_of_a_recorded_one_is_left_alone(tmp_path: Path) -> None:
    with running_group("sleep", "60") as other:
        programs.record(tmp_path, other.pid).write_text("1")
        programs.end_all(tmp_path)
        programs.end_all(tmp_path / "none")
        assert other.poll() is None
        other.kill()


def test_tethered_command_line_returns_its_exit_code() -> None:
    tethered = [sys.executable, "-P", "-m", "supervisor.testing.tethered", str(os.getpid()), ""]
    command = [*tethered, "up", "--nodes", "many"]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"invalid int value" in done.stderr
