"""A report in one line of bounded length, for events and conditions."""

from collections.abc import Iterator

from protocols.dra.diagnosis.types import COUNT, UNSEARCHED, Report, WantReport
from protocols.process.texts import cut

MAX_TEXT = 480
"""Characters; with upstream's message an event stays below its limit of 1024."""
MAX_REASON = 110
SHOWN = 3
"""Reasons shown per request, the most frequent ones."""


def one_line(report: Report, longest: int = MAX_REASON) -> str:
    """Join all reasons, each of at most `longest` characters.

    Return such as `request gpu: of 6 devices 4 selector ... is false: ..., 2 in use`, or "" if nothing is known.
    """
    return cut("; ".join(_parts(report, longest)), MAX_TEXT)


def _parts(report: Report, longest: int) -> Iterator[str]:
    short = False
    for want in (want for claim in report.claims for want in claim.wants):
        short = short or want.most < max(1, want.count)
        yield _want(want, longest)
    for each in report.nodes:
        if each.rule != UNSEARCHED and not (short and each.rule == COUNT):
            yield f"{each.count} node(s): {cut(each.text, longest)}"


def _want(want: WantReport, longest: int) -> str:
    if not want.devices:
        return f"request {want.request}: no driver has published a device"
    reasons = [f"{each.count} {cut(each.text, longest)}" for each in want.rejected[:SHOWN]]
    if rest := sum(each.count for each in want.rejected[SHOWN:]):
        reasons.append(f"{rest} other reasons")
    if want.usable:
        asked = want.count or "all"
        reasons.append(f"{want.usable} usable, at most {want.most} on one node where {asked} are needed")
    return f"request {want.request}: of {want.devices} devices {', '.join(reasons)}"
