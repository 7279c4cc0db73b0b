"""Results of the conformance suite: a report of e2e.test in, results.txt out, from which the page is made.

    python -m tests.conformance.report REPORT.json VERSION && make docs

REPORT.json is what `e2e.test --ginkgo.json-report=REPORT.json` writes. Specs that the run skipped keep no result.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).with_name("results.txt")
STATES = {"passed": "passed", "failed": "failed", "timedout": "failed", "panicked": "failed", "interrupted": "failed"}
"""Ours by ginkgo's. Others, as `skipped` and `pending`, say nothing about us."""
TAG = "[Conformance]"


class Results(NamedTuple):
    suite: str
    """Program and version; empty if it was never run."""
    states: dict[str, str]
    """`passed` or `failed` by the full name of the spec without TAG."""


def from_report(text: str, suite: str) -> Results:
    """Read a report of ginkgo. Raises ValueError, KeyError, TypeError if it is none."""
    reports = (spec for each in json.loads(text) for spec in each["SpecReports"] or ())
    found = {_name(spec): STATES[spec["State"]] for spec in reports if TAG in _texts(spec) and spec["State"] in STATES}
    return Results(suite, found)


def _texts(spec: dict[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def _name(spec: dict[str, Any]) -> str:
    return re.sub(r"\s+", " ", _texts(spec).replace(TAG, " ")).strip()


def read_results(path: Path) -> Results:
    """Read results.txt; without it, nothing was run. Raises ValueError."""
    if not path.exists():
        return Results("", {})
    first, *lines = path.read_text().splitlines()
    states = {}
    for number, line in enumerate(lines, 2):
        state, _, name = line.partition(" ")
        if state not in STATES.values() or not name:
            raise ValueError(f"{path.name}:{number}: no state and name of a spec: {line}")
        states[name] = state
    return Results(first.removeprefix("# "), states)


def write_results(results: Results, path: Path) -> None:
    lines = [f"{state} {name}\n" for name, state in sorted(results.states.items())]
    path.write_text(f"# {results.suite}\n" + "".join(lines))


def main(words: list[str]) -> int:
    if len(words) != 2:
        print("usage: python -m tests.conformance.report REPORT.json VERSION", file=sys.stderr)
        return 2
    write_results(from_report(Path(words[0]).read_text(), f"e2e.test {words[1]}"), RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
