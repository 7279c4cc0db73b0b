"""docs/explanation/watch-scenarios.md names tests for every scenario and trap of the API and its watches: all exist."""

import re
from pathlib import Path

REPO = Path(__file__).parents[2]
PAGE = (REPO / "docs" / "explanation" / "watch-scenarios.md").read_text()


def test_every_test_on_the_page_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = {
        name
        for path in (REPO / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }
    assert len(named) > 80
    assert not named - there


def test_no_trap_is_without_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 31))
    assert all("`test_" in tests for _, tests in rows)
