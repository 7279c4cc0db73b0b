"""docs/explanation/watch-scenarios.md names tests for every scenario and trap of the API and its watches: all exist."""

import re

from tests.support.pages import named, page, written

PAGE = page("watch-scenarios.md")


def test_every_test_on_the_page_exists() -> None:
    assert len(named(PAGE)) > 80
    assert not named(PAGE) - written()


def test_no_trap_is_without_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 31))
    assert all("`test_" in tests for _, tests in rows)
