"""The report as JUnit XML, as CI systems read it."""

import shlex
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from protocols.process.texts import printable
from supervisor.conform.report.text import counts, failure_lines
from supervisor.conform.verdict import FAIL, NOT_APPLICABLE, Result


def junit(words: Sequence[str], results: Sequence[Result]) -> str:
    """Return a suite with a test case for each behaviour; what does not apply is skipped."""
    totals = counts(results)
    suite = Element(
        "testsuite",
        name="nodeplane conform",
        tests=str(len(results)),
        failures=str(totals[FAIL]),
        errors="0",
        skipped=str(totals[NOT_APPLICABLE]),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    SubElement(SubElement(suite, "properties"), "property", name="command", value=printable(shlex.join(words)))
    for result in results:
        _case(suite, result)
    indent(suite)
    return tostring(suite, "unicode", xml_declaration=True) + "\n"


def _case(suite: Element, result: Result) -> None:
    case = SubElement(
        suite, "testcase", classname=f"conform.{result.phase}", name=result.name, time=f"{result.seconds:.3f}"
    )
    if result.verdict == FAIL:
        failure = SubElement(case, "failure", message=printable(result.reason), type=FAIL)
        failure.text = "\n".join(map(printable, failure_lines(result)))
    elif result.verdict == NOT_APPLICABLE:
        SubElement(case, "skipped", message=printable(result.reason))
