"""Recorded durations of test files, by which the longest go first."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.durations import Recorder, read_durations


def report(path: str, seconds: float, failed: bool = False, when: str = "call") -> Any:
    skipped = when == "teardown"
    return SimpleNamespace(nodeid=f"{path}::test_it", duration=seconds, failed=failed, skipped=skipped, when=when)


def test_recorder_adds_up_a_file_and_keeps_what_did_not_run_or_failed(tmp_path: Path) -> None:
    file = tmp_path / "tests" / "durations.txt"
    file.parent.mkdir()
    names = {
        name: f"tests/test_{name}.py" for name in ("slow", "quick", "absent", "skipped", "failing", "gone", "light")
    }
    for name in names.keys() - {"gone"}:
        (tmp_path / names[name]).touch()
    file.write_text("".join(f"9.0 {names[name]}\n" for name in ("absent", "skipped", "failing", "gone", "light")))
    recorder = Recorder(file)
    for one in (
        report(names["slow"], 8.0), report(names["slow"], 4.0), report(names["quick"], 0.2),
        report(names["failing"], 60.0, failed=True), report(names["skipped"], 0.1, when="teardown"),
        report(names["light"], 2.0), report(names["light"], 0.1, when="teardown"),
    ):  # fmt: skip
        recorder.pytest_runtest_logreport(one)
    recorder.pytest_sessionfinish()
    assert list(read_durations(file).items()) == [
        (names["slow"], 12.0),
        (names["absent"], 9.0),
        (names["failing"], 9.0),
        (names["light"], 9.0),
        (names["skipped"], 9.0),
    ]


def test_durations_without_a_record_are_none(tmp_path: Path) -> None:
    assert read_durations(tmp_path / "durations.txt") == {}
