"""The pages of conformance name tests that exist, and the page of specs is the one that its table makes."""

import json
import re
from pathlib import Path

import pytest

from tests.conformance.page import PAGE, ROOT, SPECS, page, read_specs
from tests.conformance.report import RESULTS, Results, from_report, read_results, write_results

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
    assert page(read_specs(SPECS.read_text()), read_results(RESULTS)) == PAGE.read_text(), "make docs"


@pytest.mark.parametrize("line", ["- a spec", "- a spec | !nonsense", "- a | test_a b", "nonsense"])
def test_read_specs_line_without_an_answer_is_rejected(line: str) -> None:
    with pytest.raises(ValueError, match=r"specs\.txt:2"):
        read_specs(f"= suite\n{line}\n")


def report(*specs: tuple[str, str, str]) -> str:
    return json.dumps(
        [
            {
                "SpecReports": [
                    {"ContainerHierarchyTexts": [suite], "LeafNodeText": name, "State": state}
                    for suite, name, state in specs
                ]
            }
        ]
    )


def test_page_says_what_the_suite_answered_whatever_a_test_here_states(tmp_path: Path) -> None:
    specs = read_specs("= [sig-a] b\n- works | test_a\n- breaks | test_a\n- other | test_a\n- far | !dns\n")
    text = report(
        ("[sig-a] b", "works [Conformance]", "passed"),
        ("[sig-a] b", "breaks [Slow]  [Conformance]", "skipped"),
        ("[sig-a] b", "breaks [Conformance]", "timedout"),
        ("[sig-a] b", "not of it", "failed"),
    )
    write_results(from_report(text, "e2e.test v1"), tmp_path / "results.txt")
    results = read_results(tmp_path / "results.txt")
    assert results == Results("e2e.test v1", {"[sig-a] b works": "passed", "[sig-a] b breaks": "failed"})
    shown = page(specs, results)
    assert "| works | `test_a` | passed |\n| breaks | `test_a` | failed |\n| other | `test_a` | not run |" in shown
    assert "results of e2e.test v1: 1 passed, 1 failed." in shown
    assert "| a test here states the same | 2 |\n| fails in the suite | 1 |" in shown
    unrun = page(specs, read_results(tmp_path / "none.txt"))
    assert "no binary was given" in unrun
    assert "| works | `test_a` |\n" in unrun
