"""Check docs/explanation/*-scenarios.md against the tests they name.

A numbered row names at least one test that exists and carries the row's number in `pytest.mark.scenario`.
"""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = {path.name: path.read_text() for path in (ROOT / "docs" / "explanation").glob("*-scenarios.md")}
NUMBER = r"(?:[KSAI]\d+b?|(?:[a-z-]+ )?\d{4,6})"
ROW = re.compile(rf"^\| ({NUMBER}(?:, {NUMBER})*)\b.*$", re.MULTILINE)
TEST = re.compile(r"^((?: *@.*\n(?:[ )].*\n)*?)*) *(?:async )?def (test_\w+)", re.MULTILINE)
MARKER = re.compile(r"pytest\.mark\.scenario\(([^)]*)\)")
QUOTED = re.compile(r'"([^"]+)"')
IN_A_NAME = re.compile(r"test_(?:[ksa]\d+b?|\d{4,}|trap_\d+)_")


@cache
def markers() -> dict[str, set[str]]:
    """Return every test's name with its scenario numbers: texts are matched, not parsed."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for decorators, name in TEST.findall(path.read_text()):
            found[name] |= {number for numbers in MARKER.findall(decorators) for number in QUOTED.findall(numbers)}
    return found


def named(text: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", text))


@pytest.mark.parametrize(
    ("page", "least"), [("device-scenarios.md", 150), ("pleg-scenarios.md", 60), ("watch-scenarios.md", 80)]
)
def test_every_test_on_a_page_exists(page: str, least: int) -> None:
    assert len(named(PAGES[page])) >= least
    assert named(PAGES[page]) - markers().keys() == set()


@pytest.mark.parametrize(
    ("page", "numbers"),
    [
        ("device-scenarios.md", {f"S{number:02}" for number in range(1, 62)}),
        ("pleg-scenarios.md", {"K1", "K2", *(f"S{number}" for number in range(1, 18))}),
        ("watch-scenarios.md", {"A8b", *(f"A{number}" for number in range(1, 15))}),
    ],
)
def test_every_scenario_has_a_row_and_a_test_that_carries_its_number(page: str, numbers: set[str]) -> None:
    rows = [(match[1].split(", "), named(match[0])) for match in ROW.finditer(PAGES[page])]
    assert numbers - {number for row, _ in rows for number in row} == set()
    missing = [number for row, tests in rows for number in row if not any(number in markers()[name] for name in tests)]
    assert missing == []


@pytest.mark.parametrize(("page", "count"), [("pleg-scenarios.md", 39), ("watch-scenarios.md", 30)])
def test_every_trap_has_a_test(page: str, count: int) -> None:
    rows = re.findall(r"^\| (\d{1,2}) \|.*\| (.*) \|$", PAGES[page], re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, count + 1))
    assert [number for number, tests in rows if not named(tests)] == []


def test_numbers_are_in_markers_and_not_in_names() -> None:
    assert [name for name in markers() if IN_A_NAME.match(name)] == []
