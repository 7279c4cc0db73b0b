"""docs/explanation/pleg-scenarios.md names tests for every scenario and trap that is known: all of them exist."""

import re
from pathlib import Path

REPO = Path(__file__).parents[2]


def test_every_test_on_the_page_of_scenarios_exists() -> None:
    page = (REPO / "docs" / "explanation" / "pleg-scenarios.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name
        for path in (REPO / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }
    assert len(named) > 60
    assert not named - there


def test_every_scenario_and_every_trap_has_a_row_with_a_test() -> None:
    page = (REPO / "docs" / "explanation" / "pleg-scenarios.md").read_text()
    told = {row.split("|")[1].strip() for row in page.splitlines() if row.startswith("|") and "`test_" in row}
    assert not {str(number) for number in range(1, 40)} - told
    named = {word for cell in told for word in re.findall(r"\b[KS]\d+\b", cell)}
    assert {"K1", "K2", *(f"S{number}" for number in range(1, 18))} <= named
