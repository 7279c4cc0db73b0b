"""Write docs/reference/conformance-specs.md from specs.txt and results.txt; with --check, only compare it.

`make docs` runs it. results.txt is what the suite itself answered where its binary was given, see report.py.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from supervisor.cli.reference import write_pages
from tests.conformance.report import RESULTS, Results, read_results

ROOT = Path(__file__).parents[2]
SPECS = Path(__file__).with_name("specs.txt")
PAGE = ROOT / "docs" / "reference" / "conformance-specs.md"
REASONS = {
    "network": "needs a pod network or a service proxy",
    "dns": "needs a cluster DNS",
    "links": "links in pages of pods are not rewritten",
    "nodes": "needs a second node",
    "endpoints": "needs the endpoints controllers of a kube-controller-manager",
    "statefulset": "needs the StatefulSet controller of a kube-controller-manager",
    "cronjob": "needs the CronJob controller of a kube-controller-manager",
    "aggregation": "there is no aggregation layer",
    "conversion": "conversion webhooks are not called",
    "unserved": "the kind is not served",
}
"""Why a spec cannot pass here, by the word in specs.txt."""
OPEN = "?"
HEAD = """# Conformance specs

The {total} specs of Kubernetes 1.36 that carry `[Conformance]`, by their names without that word, and the tests here
that state the same in our own words. A named test exists and passes; that the suite's own spec passes is known only
where the suite was run. {run}

| | specs |
|---|---|
| a test here states the same | {stated} |
| fails in the suite | {failed} |
| cannot pass here, with the reason | {impossible} |
| no test here yet | {open} |
"""
NOT_RUN = """The suite was not run where this page was made: no binary was given.
[Conformance](conformance.md#the-conformance-suite) says how to run it; the page then has its results."""
RUN = "The column `suite` has the results of {suite}: {passed} passed, {failed} failed."


class Spec(NamedTuple):
    suite: str
    name: str
    answer: str
    """Names of tests, a reason of REASONS after `!`, or OPEN."""

    @property
    def full_name(self) -> str:
        return f"{self.suite} {self.name}"

    @property
    def tests(self) -> list[str]:
        return self.answer.split() if self.answer.startswith("test_") else []


def read_specs(text: str) -> list[Spec]:
    """Parse specs.txt. Raises ValueError for a line that is no suite, and no spec with an answer."""
    found: list[Spec] = []
    suite = default = ""
    for number, line in enumerate(text.splitlines(), 1):
        sign, _, rest = line.partition(" ")
        name, _, answer = rest.partition(" | ")
        if sign == "=":
            suite, default = name, answer
        elif sign == "-" and _is_answer(answer or default):
            found.append(Spec(suite, name, answer or default))
        elif sign != "#":
            raise ValueError(f"specs.txt:{number}: no suite and no spec with an answer: {line}")
    return found


def _is_answer(answer: str) -> bool:
    tests = all(re.fullmatch(r"test_\w+", word) for word in answer.split())
    return answer == OPEN or answer.removeprefix("!") in REASONS or bool(answer and tests)


def page(specs: list[Spec], results: Results) -> str:
    counts = Counter(_kind(spec, results) for spec in specs)
    known = Counter(results.states.get(spec.full_name) for spec in specs)
    run = RUN.format(suite=results.suite, passed=known["passed"], failed=known["failed"]) if results.suite else NOT_RUN
    kinds = {key: counts[key] for key in ("stated", "impossible", "open")}
    failed = counts["failed"] if results.suite else "not run"
    parts = [HEAD.format(total=len(specs), run=run, failed=failed, **kinds)]
    columns = ["spec", "here", *(["suite"] if results.suite else [])]
    for suite in dict.fromkeys(spec.suite for spec in specs):
        rows = [_row(_plain(spec.name), *_shown(spec, results)) for spec in specs if spec.suite == suite]
        parts.append("\n".join([f"## {suite}", "", _row(*columns), "|" + "---|" * len(columns), *rows, ""]))
    return "\n".join(parts)


def _kind(spec: Spec, results: Results) -> str:
    """Return how the spec counts. What the suite answered is more than what a test here states."""
    if results.states.get(spec.full_name) == "failed":
        return "failed"
    return "stated" if spec.tests else "open" if spec.answer == OPEN else "impossible"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(spec: Spec, results: Results) -> list[str]:
    """Return the cells after the name."""
    state = [results.states.get(spec.full_name, "not run")] if results.suite else []
    if spec.tests:
        return [", ".join(f"`{name}`" for name in spec.tests), *state]
    return ["no test yet" if spec.answer == OPEN else f"cannot: {REASONS[spec.answer[1:]]}", *state]


def _plain(name: str) -> str:
    return name.replace("|", "\\|").replace("*", "\\*")


if __name__ == "__main__":
    wanted = page(read_specs(SPECS.read_text()), read_results(RESULTS))
    sys.exit(write_pages({PAGE: wanted}, sys.argv[1:]))
