"""The pages of conformance name tests that exist, and the page of specs is the one that its table makes."""

import re

import pytest

from tests.conformance.page import PAGE, ROOT, SPECS, page, read_specs

TESTS = frozenset(
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
)
COUNT = 446
"""Specs with [Conformance] in Kubernetes 1.36."""


def test_specs_are_all_of_the_release_and_each_once() -> None:
    specs = read_specs(SPECS.read_text())
    assert len({(spec.suite, spec.name) for spec in specs}) == len(specs) == COUNT


def test_specs_name_tests_that_exist() -> None:
    named = {name for spec in read_specs(SPECS.read_text()) for name in spec.tests}
    assert sorted(named - TESTS) == []


def test_conformance_page_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (PAGE.parent / "conformance.md").read_text()))
    assert sorted(named - TESTS) == []


def test_page_is_written_from_the_table() -> None:
    assert page(read_specs(SPECS.read_text())) == PAGE.read_text(), "make docs"


@pytest.mark.parametrize("line", ["- a spec", "- a spec | !nonsense", "- a | test_a b", "nonsense"])
def test_read_specs_line_without_an_answer_is_rejected(line: str) -> None:
    with pytest.raises(ValueError, match=r"specs\.txt:2"):
        read_specs(f"= suite\n{line}\n")
