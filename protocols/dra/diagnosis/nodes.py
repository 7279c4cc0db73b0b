"""Why one node does not satisfy all claims, although single devices fit.

Searches again with fewer demands: one request alone, one claim without constraints, each constraint alone. The first
that finds nothing is the reason.
"""

from collections.abc import Generator

import msgspec

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.claims import ALL, Claim, DeviceConstraint, Request
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.types import AllocationFault, Node, NodeFault, TimedOut
from protocols.dra.diagnosis.types import CONSTRAINT, COUNT, ERROR, TOGETHER, Case, Rejection

STEPS = 4000
"""Steps of one search: some 30 ms."""
TURN_STEPS = 50
Search = Generator[None, None, Rejection | None]
"""Yields between short pieces of work."""
UNDECIDED = Rejection(ERROR, f"the search for devices was not done after {STEPS} steps")


def node_rejection(case: Case, node: Node) -> Search:
    """Return None in the end if the node satisfies all claims."""
    inputs = AllocatorInputs(case.catalog.view(node).pools, case.used, case.classes, case.engine, case.gates)
    try:
        return (yield from _rejection(case.claims, inputs))
    except TimedOut:
        return UNDECIDED
    except (AllocationFault, NodeFault) as fault:
        return Rejection(ERROR, str(fault))


def _rejection(claims: tuple[Claim, ...], inputs: AllocatorInputs) -> Search:
    if (yield from _fits(claims, inputs)):
        return None
    for claim in claims:
        if len(claims) == 1 or not (yield from _fits((claim,), inputs)):
            return (yield from _of_claim(claim, inputs))
    return Rejection(TOGETHER, "each claim alone finds devices, all claims of the pod together do not")


def _of_claim(claim: Claim, inputs: AllocatorInputs) -> Search:
    """Return the reason of a claim that finds no devices even alone."""
    free = msgspec.structs.replace(claim, constraints=())
    for request in claim.requests:
        if not (yield from _part_fits(msgspec.structs.replace(free, requests=(request,)), claim, inputs)):
            return Rejection(COUNT, _too_few(request))
    if len(claim.requests) > 1 and not (yield from _part_fits(free, claim, inputs)):
        names = ", ".join(asked.name for asked in claim.requests)
        return Rejection(TOGETHER, f"requests {names} need the same devices or counters")
    for constraint in claim.constraints:
        if not (yield from _part_fits(msgspec.structs.replace(claim, constraints=(constraint,)), claim, inputs)):
            return Rejection(CONSTRAINT, f"no devices satisfy {_named(constraint)}")
    return Rejection(CONSTRAINT, "each constraint alone can be satisfied, all together cannot")


def _part_fits(part: Claim, claim: Claim, inputs: AllocatorInputs) -> Generator[None, None, bool]:
    """Search for a part of a claim; the claim itself is known to find nothing."""
    return part != claim and (yield from _fits((part,), inputs))


def _too_few(request: Request) -> str:
    if request.prioritized:
        return f"no alternative of request {request.name} finds enough devices"
    if request.subrequests[0].mode == ALL:
        return f"request {request.name} asks for all devices, not all that match are usable"
    return f"request {request.name} finds too few devices: those that are usable one by one exclude each other"


def _fits(claims: tuple[Claim, ...], inputs: AllocatorInputs) -> Generator[None, None, bool]:
    attempt = Attempt(AttemptOptions(claims, inputs, steps=STEPS))
    while (answer := attempt.advance(TURN_STEPS)) is None:
        yield
    yield
    return answer


def _named(constraint: DeviceConstraint) -> str:
    kind = f"matchAttribute {constraint.match}" if constraint.match else f"distinctAttribute {constraint.distinct}"
    return f"{kind} over {'requests ' + ', '.join(constraint.requests) if constraint.requests else 'all requests'}"
