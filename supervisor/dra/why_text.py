"""Text of `nodeplane devices --why`: a table of rules per request, then the nodes."""

from collections.abc import Iterable, Iterator

from protocols.dra.diagnosis.types import Group, WantReport
from supervisor.base.terminal import Table
from supervisor.dra.why import Answer

DEVICES = ("DEVICES", "RULE", "WHY", "FOR EXAMPLE")
NODES = ("NODES", "RULE", "WHY", "FOR EXAMPLE")
SHOWN = 3
"""Fitting nodes that are named."""
UNCHECKED = "the scheduler also checks affinity to other pods and topology spread"


def answer_parts(found: Answer) -> list[Table | str]:
    return [_head(found), *_claims(found), *_nodes(found)]


def _head(found: Answer) -> str:
    if found.node:
        return f"pod {found.pod} is bound to node {found.node}"
    lines = [f"pod {found.pod} waits: {found.message or 'the scheduler has not said why yet'}"]
    if not found.claims:
        lines.append("it uses no ResourceClaims, so no device is in the way")
    return "\n".join([*lines, *found.unreadable])


def _claims(found: Answer) -> Iterator[Table | str]:
    reports = {each.claim: each for each in found.report.claims}
    for state in found.claims:
        held = f": {', '.join(state.devices)}" if state.devices else ""
        report = reports.get(state.claim)
        waits = f"; not ready: {', '.join(state.waits)}" if state.waits and not found.node else ""
        yield f"claim {state.claim}: {report.fault if report and report.fault else state.state + held + waits}"
        for want in report.wants if report else ():
            yield _want(want)
            if want.rejected:
                yield Table(DEVICES, list(_rows(want.rejected)))


def _want(want: WantReport) -> str:
    asked = f"{want.count}" if want.count else "all"
    usable = f"{want.usable} usable" + (f", at most {want.most} on one node" if want.usable else "")
    return f"request {want.request}: {asked} of class {want.class_name}; of {want.devices} devices {usable}"


def _nodes(found: Answer) -> Iterator[Table | str]:
    if found.nodes or found.report.nodes:
        yield Table(NODES, list(_rows((*found.nodes, *found.report.nodes))))
    if found.fitting and not any(state.missing for state in found.claims):
        rest = "" if len(found.fitting) <= SHOWN else f" and {len(found.fitting) - SHOWN} more"
        enough = "room and devices suffice" if found.report.claims else "room suffices"
        yield f"{enough} on {', '.join(found.fitting[:SHOWN])}{rest}; {UNCHECKED}"


def _rows(groups: Iterable[Group]) -> Iterator[tuple[str, ...]]:
    for each in groups:
        more = "" if each.count <= len(each.examples) else ", ..."
        yield str(each.count), each.rule, each.text, ", ".join(each.examples) + more
