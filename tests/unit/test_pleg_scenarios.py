"""docs/explanation/pleg-scenarios.md names tests for every scenario and trap that is known: all of them exist."""

import re

from tests.support.pages import named, page, written

PAGE = page("pleg-scenarios.md")


def test_every_test_on_the_page_of_scenarios_exists() -> None:
    assert len(named(PAGE)) > 60
    assert not named(PAGE) - written()


def test_every_scenario_and_every_trap_has_a_row_with_a_test() -> None:
    told = {row.split("|")[1].strip() for row in PAGE.splitlines() if row.startswith("|") and "`test_" in row}
    assert not {str(number) for number in range(1, 40)} - told
    kinds = {word for cell in told for word in re.findall(r"\b[KS]\d+\b", cell)}
    assert {"K1", "K2", *(f"S{number}" for number in range(1, 18))} <= kinds
