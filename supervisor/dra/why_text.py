"""Text of `nodeplane devices --why`: a table of rules per request, then the nodes; and the reason in one line."""

from collections.abc import Iterable, Iterator

from protocols.dra.diagnosis.types import DiagnosisReport, Group, SubRequestReport, one_line
from supervisor.base.terminal import Table
from supervisor.dra.why import PodAnswer

DEVICES = ("DEVICES", "RULE", "WHY", "FOR EXAMPLE")
NODES = ("NODES", "RULE", "WHY", "FOR EXAMPLE")
SHOWN = 3
"""Fitting nodes that are named."""
NAMED = 4
"""Reasons of nodes in one line."""
LONGEST = 320
"""Characters of a reason in one line: enough for the attributes that a device has instead of a missing one."""
UNCHECKED = "the scheduler also checks affinity to other pods and topology spread"


def reason_of(found: PodAnswer, claim: str = "") -> str:
    """Return why no node can run a pod, or has the devices for one of its claims; "" if nothing is known.

    Several nodes are named, each with its reason; what keeps devices from the requests follows.
    """
    claims = tuple(diagnosed for diagnosed in found.report.claims if claim in ("", diagnosed.claim))
    if fault := next((diagnosed for diagnosed in claims if diagnosed.fault), None):
        return fault.fault if claim else f"claim {fault.claim}: {fault.fault}"
    groups = sorted((*found.nodes, *found.report.nodes), key=lambda each: -each.count)
    several = len({name for group in groups for name in group.examples}) > 1
    if claims and not several:
        return one_line(DiagnosisReport(claims, () if claim else found.report.nodes), LONGEST)
    nodes = f"no node can run it: {'; '.join(map(_of_nodes, groups[:NAMED]))}" if groups else ""
    return "; ".join(filter(None, (nodes, one_line(DiagnosisReport(claims, ()), LONGEST))))


def _of_nodes(group: Group) -> str:
    names = ", ".join(group.examples)
    if group.count == 1:
        return f"node {names}: {group.text}"
    known = group.count <= len(group.examples)
    return f"{f'nodes {names}' if known else f'{group.count} nodes ({names}, ...)'}: {group.text}"


def answer_parts(found: PodAnswer) -> list[Table | str]:
    """Return the answer as tables and lines, in order."""
    return [_head(found), *_claims(found), *_nodes(found)]


def _head(found: PodAnswer) -> str:
    if found.node:
        return f"pod {found.pod} is bound to node {found.node}"
    lines = [f"pod {found.pod} waits: {found.message or 'the scheduler has not said why yet'}"]
    if not found.claims:
        lines.append("it uses no ResourceClaims, so no device is in the way")
    return "\n".join([*lines, *found.unreadable])


def _claims(found: PodAnswer) -> Iterator[Table | str]:
    reports = {claim.claim: claim for claim in found.report.claims}
    for state in found.claims:
        held = f": {', '.join(state.devices)}" if state.devices else ""
        report = reports.get(state.claim)
        waits = f"; not ready: {', '.join(state.waits)}" if state.waits and not found.node else ""
        yield f"claim {state.claim}: {report.fault if report and report.fault else state.state + held + waits}"
        for subrequest in report.subrequests if report else ():
            yield _subrequest(subrequest)
            if subrequest.rejected:
                yield Table(DEVICES, list(_rows(subrequest.rejected)))


def _subrequest(report: SubRequestReport) -> str:
    asked = f"{report.count}" if report.count else "all"
    usable = f"{report.usable} usable" + (f", at most {report.most} on one node" if report.usable else "")
    return f"request {report.request}: {asked} of class {report.class_name}; of {report.devices} devices {usable}"


def _nodes(found: PodAnswer) -> Iterator[Table | str]:
    if found.nodes or found.report.nodes:
        yield Table(NODES, list(_rows((*found.nodes, *found.report.nodes))))
    if found.fitting and not any(state.missing for state in found.claims):
        rest = "" if len(found.fitting) <= SHOWN else f" and {len(found.fitting) - SHOWN} more"
        enough = "room and devices suffice" if found.report.claims else "room suffices"
        yield f"{enough} on {', '.join(found.fitting[:SHOWN])}{rest}; {UNCHECKED}"


def _rows(groups: Iterable[Group]) -> Iterator[tuple[str, ...]]:
    for group in groups:
        more = "" if group.count <= len(group.examples) else ", ..."
        yield str(group.count), group.rule, group.text, ", ".join(group.examples) + more
