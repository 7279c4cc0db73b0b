"""`nodeplane test --watch` without a plane: what counts as a save, and when the command runs again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.base.errors import UsageError
from supervisor.cli.main import main
from supervisor.testing import watching
from supervisor.testing.watching import SavedFiles
from tests.support.plane import until


def touch(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_save_is_a_file_made_written_or_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path / "src" / "a.py")
    seen = SavedFiles(["."])
    assert seen.found() == ""
    actions: tuple[Callable[[], None], ...] = (
        lambda: touch(tmp_path / "src" / "a.py", "longer"),
        lambda: touch(tmp_path / "src" / "b.py"),
        lambda: (tmp_path / "src" / "b.py").unlink(),
    )
    for action in actions:
        action()
        assert seen.found().startswith("src/")
        seen.take()
        assert seen.found() == ""


@pytest.mark.parametrize("name", [".git/index", ".venv/a.py", "a/__pycache__/a.pyc", "node_modules/b.js", "a.py~"])
def test_caches_dependencies_and_hidden_files_are_no_saves(name: str, tmp_path: Path) -> None:
    seen = SavedFiles([str(tmp_path)])
    touch(tmp_path / name)
    assert seen.found() == ""


def test_output_of_the_command_itself_is_no_save(tmp_path: Path) -> None:
    code = (
        "from supervisor.testing.watching import SavedFiles; "
        "c = SavedFiles(['.']); print(flush=True); exit(len(c.found()))"
    )
    with (tmp_path / "log.txt").open("w") as log:
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stdout=log, env={"PYTHONPATH": os.getcwd()})
    assert done.returncode == 0


def test_saves_close_to_one_another_are_one(tmp_path: Path) -> None:
    left = [1, 2, 3]
    seen = SavedFiles([str(tmp_path)])
    touch(tmp_path / "a")
    seen.take(lambda seconds: touch(tmp_path / f"a{left.pop()}") if left else None)
    assert left == []
    assert seen.found() == ""


def test_too_many_files_and_missing_paths_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_FILES", 3)
    for number in range(4):
        touch(tmp_path / str(number))
    with pytest.raises(UsageError, match="more than 3 files; give paths"):
        SavedFiles([str(tmp_path)])
    with pytest.raises(UsageError, match="there is no such file"):
        SavedFiles([str(tmp_path / "none")])
    assert SavedFiles([str(tmp_path / "1")]).found() == ""


def test_watch_rejects_a_root_of_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--root", "/tmp/x", "--watch", "--", "true"]) == 2
    assert "leave --root out" in capsys.readouterr().err


PROGRAM = """
import sys
from supervisor.testing import watching
from supervisor.testing.plane import TestPlane

class Plane(TestPlane):
    # it has an environment and a root, and no process
    def start(self, *words, **options): pass
    def stop(self, *, remove=True): self.root.rmdir()
    def runs(self): return True
    def environment(self): return {"PLANE": str(self.root)}

watching.POLL_S, watching.STOP_S, watching.TOGETHER_S = 0.05, 0.3, 0.02
watching.WatchRun._keep = lambda self, reason: None
sys.exit(watching.WatchRun(Plane, ["sh", sys.argv[1] + "/script"], "", [sys.argv[1]]).run())
"""
"""It is a process of its own: it ends and reaps all of its children."""
STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"


def test_each_save_runs_the_command_on_another_plane_and_a_signal_ends_with_the_last_result(tmp_path: Path) -> None:
    script, seen, said = tmp_path / "watched" / "script", tmp_path / "seen", tmp_path / "said"

    def save(text: str) -> None:
        touch(script, f"echo $PLANE >>{seen}; {text}")

    def states() -> list[str]:
        lines = [line.removeprefix("nodeplane: ") for line in said.read_text().splitlines()]
        return [line.partition(" in ")[0] for line in lines if "waiting for a change below" in line]

    save("true")
    with said.open("w") as error:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(script.parent)], stderr=error)
    try:
        until("it waits", lambda: states() == ["passed"])
        save("exit 3")
        until("it waits again", lambda: states() == ["passed", "failed with 3"])
        save(STUBBORN)
        until("the third run has begun", lambda: len(seen.read_text().split()) == 3)
        save("exit 4")
        until("the fourth run has ended", lambda: states() == ["passed", "failed with 3", "failed with 4"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 4
    finally:
        process.kill()
        process.wait()
    planes = seen.read_text().split()
    assert len(set(planes)) == 4, "two runs had the same plane"
    assert not [path for path in planes if Path(path).exists()]
    assert "script was saved: ended after" in said.read_text()
