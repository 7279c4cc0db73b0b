"""The table of real programs in docs/reference/conformance.md, as tests with binaries write it."""

from pathlib import Path

import pytest

from tests.support import program_start
from tests.support.program_start import PAGE, TABLE, record


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "conformance.md"
    copy.write_text(PAGE.read_text())
    monkeypatch.setattr(program_start, "PAGE", copy)
    monkeypatch.setenv(TABLE, "1")
    return copy


def rows(page: Path) -> list[str]:
    text = page.read_text().partition("| program | version | direction | tried |\n|---|---|---|---|\n")[2]
    return [line for line in text.partition("\n\n")[0].splitlines() if line.startswith("|")]


def test_record_adds_a_row_and_replaces_it(page: Path) -> None:
    before = rows(page)
    record("a-program", "v1.36.1", "at our API", "start")
    record("z-program", "v1.36.1", "on our store", "start")
    record("a-program", "v1.36.2", "at our API", "start, sync")
    new = ["| a-program | v1.36.2 | at our API | start, sync |", "| z-program | v1.36.1 | on our store | start |"]
    assert rows(page) == sorted([*before, *new])
    left = page.read_text()
    for line in new:
        left = left.replace(f"{line}\n", "")
    assert left.split() == PAGE.read_text().split()


def test_record_without_the_variable_writes_nothing(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TABLE)
    record("a-program", "v1.36.1", "at our API", "start")
    assert page.read_text() == PAGE.read_text()
