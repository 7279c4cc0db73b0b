"""A report in one line of bounded length, for events and conditions."""

from collections.abc import Iterator

from protocols.dra.diagnosis.types import COUNT, UNSEARCHED, DiagnosisReport, SubRequestReport
from protocols.process.texts import cut

MAX_TEXT = 480
"""Characters; with upstream's message an event stays below its limit of 1024."""
MAX_REASON = 110
SHOWN = 3
"""Reasons shown per request, the most frequent ones."""


def one_line(report: DiagnosisReport, longest: int = MAX_REASON) -> str:
    """Join all reasons, each of at most `longest` characters.

    Return such as `request gpu: of 6 devices 4 selector ... is false: ..., 2 in use`, or "" if nothing is known.
    """
    return cut("; ".join(_parts(report, longest)), MAX_TEXT)


def _parts(report: DiagnosisReport, longest: int) -> Iterator[str]:
    short = False
    for subrequest in (subrequest for claim in report.claims for subrequest in claim.subrequests):
        short = short or subrequest.most < max(1, subrequest.count)
        yield _subrequest(subrequest, longest)
    for each in report.nodes:
        if each.rule != UNSEARCHED and not (short and each.rule == COUNT):
            yield f"{each.count} node(s): {cut(each.text, longest)}"


def _subrequest(subrequest: SubRequestReport, longest: int) -> str:
    if not subrequest.devices:
        return f"request {subrequest.request}: no driver has published a device"
    reasons = [f"{each.count} {cut(each.text, longest)}" for each in subrequest.rejected[:SHOWN]]
    if rest := sum(each.count for each in subrequest.rejected[SHOWN:]):
        reasons.append(f"{rest} other reasons")
    if subrequest.usable:
        asked = subrequest.count or "all"
        reasons.append(f"{subrequest.usable} usable, at most {subrequest.most} on one node where {asked} are needed")
    return f"request {subrequest.request}: of {subrequest.devices} devices {', '.join(reasons)}"
