"""Rules that reject devices and nodes, the report made of them, and its text of one line."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import Claim
from protocols.dra.allocator.types import AllocatedState, Node, Selectors
from protocols.dra.gates import Gates
from protocols.dra.types import DeviceClass, DeviceId
from protocols.process.texts import cut

SELECTOR, POOL, TAINT, IN_USE = "selector", "pool", "taint", "in use"
CAPACITY, COUNTERS, NODE, GATE = "capacity", "counters", "node", "gate"
"""Rules about one device, in the order in which they are tried."""
COUNT, CONSTRAINT, TOGETHER, ERROR, UNSEARCHED = "count", "constraint", "together", "error", "not searched"
"""Rules about all devices of a node."""
MAX_GROUPS = 16
"""Reasons listed per request; rarer ones are summed up."""
MAX_EXAMPLES = 3


MAX_TEXT = 480
"""Characters; with upstream's message an event stays below its limit of 1024."""
MAX_REASON = 110
SHOWN = 3
"""Reasons shown per request, the most frequent ones."""


class Rejection(NamedTuple):
    """One reason against a device or node: a rule's name, stable for programs, and a text for users."""

    rule: str
    text: str


class Group(msgspec.Struct, frozen=True):
    """Devices, or nodes, rejected for the same reason."""

    rule: str
    text: str
    count: int
    examples: tuple[str, ...]


class SubRequestReport(msgspec.Struct, frozen=True):
    """Usable and rejected devices of a subrequest, or of a request without alternatives."""

    request: str
    """`r`, or `r/sub` of an alternative."""
    class_name: str
    count: int
    """Devices asked for; 0 for allocationMode All."""
    devices: int
    """Devices of the cluster."""
    usable: int
    """Devices that no rule about one device rejects."""
    most: int
    """The most that one node has of them."""
    rejected: tuple[Group, ...]


class ClaimReport(msgspec.Struct, frozen=True):
    """Reasons why a claim's subrequests find no devices."""

    claim: str
    fault: str
    """Why no device was considered; empty otherwise."""
    subrequests: tuple[SubRequestReport, ...] = msgspec.field(name="wants")
    """Name in JSON as in saved answers of `nodeplane why`."""


class DiagnosisReport(msgspec.Struct, frozen=True):
    """Answer to the question why a pod's claims are not allocated."""

    claims: tuple[ClaimReport, ...]
    nodes: tuple[Group, ...]
    """Why each node that fits the pod otherwise does not satisfy the claims together."""
    fitting: tuple[str, ...] = ()
    """Nodes that do; the scheduler is about to choose one."""


def free_of_holders(device: DeviceId) -> str:
    """Default of DiagnosisInputs.holder: it is not known which pods hold which devices."""
    return ""


class Case(msgspec.Struct, frozen=True):
    """A pod that waits, and the state of the cluster."""

    claims: tuple[Claim, ...]
    """The claims that are not allocated."""
    catalog: Catalog
    nodes: tuple[Node, ...]
    """Nodes that fit the pod otherwise."""
    classes: Mapping[str, DeviceClass]
    engine: Selectors
    used: AllocatedState
    excluded: Mapping[str, str] = {}
    """Why the other nodes do not, by name."""
    holder: Callable[[DeviceId], str] = free_of_holders
    """Returns the claim that holds a device, or ""."""
    searched: int = 8
    """Nodes searched as a whole, those with most usable devices first."""
    gates: Gates = Gates()


def one_line(report: DiagnosisReport, longest: int = MAX_REASON) -> str:
    """Join all reasons, each of at most `longest` characters.

    Return such as `request gpu: of 6 devices 4 selector ... is false: ..., 2 in use`, or "" if nothing is known.
    """
    return cut("; ".join(_parts(report, longest)), MAX_TEXT)


def _parts(report: DiagnosisReport, longest: int) -> Iterator[str]:
    short = False
    asked = [(claim.claim, subrequest) for claim in report.claims for subrequest in claim.subrequests]
    claims_of_name = Counter(subrequest.request for _, subrequest in asked)
    for claim, subrequest in asked:
        short = short or subrequest.most < max(1, subrequest.count)
        yield _subrequest(subrequest, f" of claim {claim}" if claims_of_name[subrequest.request] > 1 else "", longest)
    for node in report.nodes:
        if node.rule != UNSEARCHED and not (short and node.rule == COUNT):
            yield f"{node.count} node(s): {cut(node.text, longest)}"


def _subrequest(subrequest: SubRequestReport, of_claim: str, longest: int) -> str:
    name = f"request {subrequest.request}{of_claim}"
    if not subrequest.devices:
        return f"{name}: no driver has published a device"
    reasons = [f"{group.count} {cut(group.text, longest)}" for group in subrequest.rejected[:SHOWN]]
    if rest := sum(group.count for group in subrequest.rejected[SHOWN:]):
        reasons.append(f"{rest} other reasons")
    if subrequest.usable:
        asked = subrequest.count or "all"
        reasons.append(f"{subrequest.usable} usable, at most {subrequest.most} on one node where {asked} are needed")
    return f"{name}: of {subrequest.devices} devices {', '.join(reasons)}"
