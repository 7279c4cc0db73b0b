"""Seconds that each file of tests took, as `make durations` recorded them in tests/durations.txt."""

from collections import Counter
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "durations.txt"
LEAST_S = 1.0
"""Files that take less are left out."""


def read_durations(file: Path = FILE) -> dict[str, float]:
    """Return seconds by the file's path below the repository; {} where nothing was recorded."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {path: float(seconds) for seconds, path in (line.split() for line in lines)}


class Recorder:
    """A pytest plugin that writes the file. What did not run, or failed, keeps the duration that it had.

    So does a file that took longer before, if some of its tests were skipped: `make test` plays no heavy ones.
    """

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._seconds: Counter[str] = Counter()
        self._ran: set[str] = set()
        self._failed: set[str] = set()
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = report.nodeid.partition("::")[0]
        self._seconds[path] += report.duration  # type: ignore[assignment]  # a Counter of floats
        if report.when == "call":  # what is skipped has a set-up and a teardown only
            self._ran.add(path)
        if report.failed:
            self._failed.add(path)
        if report.skipped:
            self._skipped.add(path)

    def pytest_sessionfinish(self) -> None:
        measured = {path: seconds for path, seconds in self._seconds.items() if path in self._ran - self._failed}
        root = self._file.parents[1]
        before = read_durations(self._file)
        whole = {path: max(measured.get(path, 0.0), before.get(path, 0.0)) for path in self._skipped}
        found = {**before, **measured, **whole}
        rows = sorted((-seconds, path) for path, seconds in found.items() if seconds >= LEAST_S)
        lines = [f"{-seconds:.1f} {path}\n" for seconds, path in rows if (root / path).exists()]
        self._file.write_text("".join(lines))
