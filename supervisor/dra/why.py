"""Why a pod waits: its claims, the nodes without room for it, and the rules that reject devices on the others."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from protocols.dra.allocator.claims import Claim, Request, claim_of
from protocols.dra.allocator.extended import Backing, ExtendedClaim, TooManyRequests, backed, backing, extended_claim
from protocols.dra.allocator.plan import CelSelectors
from protocols.dra.allocator.types import Node
from protocols.dra.binding import unmet
from protocols.dra.diagnosis.diagnose import Diagnosis, RejectionTally
from protocols.dra.diagnosis.types import Case, DiagnosisReport, Group, Rejection
from protocols.dra.gates import Gates
from protocols.dra.pods import (
    allocation_of,
    claim_names,
    device_of,
    extended_claim_key,
    extended_claim_name,
    results_of,
)
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import condition, key_of, labels_of, name_of, namespace_of, terminating
from protocols.kube.pods import node_of
from protocols.scheduling.requests import pod_requests
from supervisor.base.errors import SupervisorError
from supervisor.dra.node_rules import NodeRules
from supervisor.dra.snapshot import DeviceSnapshot, snapshot_of


class ClaimState(msgspec.Struct, frozen=True):
    """A claim of a pod that waits."""

    claim: str
    state: str
    """`pending`, `allocated`, or why there is none."""
    devices: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    """Binding conditions that its devices lack, as `DEVICE CONDITION`."""
    missing: bool = False
    """The pod waits for somebody to create the claim."""


def named_claims(pod: views.Pod, claims: Mapping[str, views.ResourceClaim]) -> Iterator[ClaimState]:
    """Yield the state of each claim that the pod's spec and status name; `claims` are those of the API by key."""
    extended = extended_claim_name(pod)
    for entry, name in {**claim_names(pod), **({"": extended} if extended else {})}.items():
        key = f"{namespace_of(pod)}/{name or entry}"
        if name is None:
            yield ClaimState(key, "the claim of this entry is not created yet", missing=True)
        elif name and key not in claims:
            yield ClaimState(key, "does not exist", missing=True)
        elif name and terminating(claims[key]) and not node_of(pod):
            yield ClaimState(key, "is being deleted", missing=True)
        elif name:
            devices = tuple(str(device_of(result)) for result in results_of(claims[key]))
            waits = tuple(" ".join(words) for words in unmet(claims[key]))
            yield ClaimState(key, "allocated" if allocation_of(claims[key]) else "pending", devices, waits)


def claim_for_extended_resources(pod: views.Pod, classes: Backing) -> Claim | None:
    """Return the claim that the scheduler would create, or None if no class backs a resource of the pod.

    Its requests are named after resources and containers. Raises TooManyRequests.
    """
    resources = backed(pod_requests(pod.get("spec") or {}), classes)
    extended = extended_claim(pod, resources, classes) if resources else None
    return _readable(extended) if extended is not None and extended.claim.requests else None


def _readable(made: ExtendedClaim) -> Claim:
    names: dict[str, str] = {}
    for mapping in made.mappings:
        names.setdefault(mapping.request, f"{mapping.resource} of container {mapping.container}")
    requests = (_named(request, names.get(request.name, request.name)) for request in made.claim.requests)
    return msgspec.structs.replace(made.claim, requests=tuple(requests))


def _named(request: Request, name: str) -> Request:
    subrequests = tuple(msgspec.structs.replace(subrequest, name=name) for subrequest in request.subrequests)
    return msgspec.structs.replace(request, name=name, subrequests=subrequests)


NO_REPORT = DiagnosisReport((), ())


class PodAnswer(msgspec.Struct, frozen=True):
    """Answer of `nodeplane devices --why POD`."""

    pod: str
    node: str
    """Empty while the pod waits."""
    message: str
    """Message of the pod's PodScheduled condition."""
    claims: tuple[ClaimState, ...]
    report: DiagnosisReport = NO_REPORT
    """Why devices do not satisfy the claims, on nodes that have room for the pod."""
    nodes: tuple[Group, ...] = ()
    """Nodes that have no room for the pod, whatever its devices; empty once it is bound."""
    fitting: tuple[str, ...] = ()
    """Nodes with room and devices; the scheduler also checks affinity to other pods and topology spread."""
    unreadable: tuple[str, ...] = ()


def pod_answer(pod: views.Pod, objects: list[Any], gates: Gates) -> PodAnswer:
    """Raises SupervisorError for objects of the wrong shape, which another server may have admitted."""
    try:
        return _answer(pod, objects, gates)
    except TooManyRequests as error:
        raise SupervisorError(f"pod {key_of(pod)}: {error}") from None
    except SHAPE_ERRORS as error:
        raise SupervisorError(
            f"an object of pod {key_of(pod)} has a field of the wrong shape: {error!r:.200}"
        ) from None


def _answer(pod: views.Pod, objects: list[Any], gates: Gates) -> PodAnswer:
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "")
    by_kind: defaultdict[str, list[Any]] = defaultdict(list)
    for obj in objects:
        by_kind[str(obj.get("kind"))].append(obj)
    claims = {key_of(obj): obj for obj in by_kind["ResourceClaim"]}
    snapshot = snapshot_of(objects, gates)
    backed_by = backing(snapshot.tracker.inputs.classes.values())
    own, pending = _claims_of(pod, claims, backed_by)
    answer = PodAnswer(key_of(pod), node, message, tuple(own), unreadable=tuple(snapshot.unreadable))
    if node:
        return answer
    allocated = [claims[claim.claim] for claim in own if claim.state == "allocated"]
    rules = NodeRules(pod, by_kind["Pod"], allocated, backed_by)
    nodes = sorted(by_kind["Node"], key=name_of)
    rejected = {name_of(candidate): rules.rejections(candidate) for candidate in nodes}
    roomy = tuple(
        Node(name_of(candidate), labels_of(candidate)) for candidate in nodes if not rejected[name_of(candidate)]
    )
    if not pending:
        return msgspec.structs.replace(
            answer, nodes=_groups(rejected), fitting=tuple(candidate.name for candidate in roomy)
        )
    report = Diagnosis(_case(pending, roomy, rejected, claims, snapshot)).run()
    return msgspec.structs.replace(answer, report=report, nodes=_groups(rejected), fitting=report.fitting)


def _claims_of(
    pod: views.Pod, claims: Mapping[str, views.ResourceClaim], backed_by: Backing
) -> tuple[list[ClaimState], tuple[Claim, ...]]:
    """Return the state of the pod's claims, and those to allocate. Raises TooManyRequests."""
    own = list(named_claims(pod, claims))
    pending = [claim_of(claims[claim.claim]) for claim in own if claim.state == "pending"]
    extended, key = claim_for_extended_resources(pod, backed_by), extended_claim_key(pod)
    if extended is not None and not (pod.get("spec") or {}).get("nodeName") and key not in claims:
        own = [claim for claim in own if claim.claim != key]  # the claim of a failed attempt is deleted
        own.append(ClaimState(extended.key, "not created: the scheduler creates it for extended resources"))
        pending.append(extended)
    return own, tuple(pending)


def _groups(rejected: Mapping[str, list[Rejection]]) -> tuple[Group, ...]:
    tally = RejectionTally()
    for name, rejections in rejected.items():
        for rejection in rejections:
            tally.add(rejection, name)
    return tally.groups()


def _case(
    pending: tuple[Claim, ...], nodes: tuple[Node, ...], rejected: Mapping[str, list[Rejection]],
    claims: Mapping[str, views.ResourceClaim], snapshot: DeviceSnapshot,
) -> Case:  # fmt: skip
    results = ((key, result) for key, claim in claims.items() for result in results_of(claim))
    holders = {device_of(each): key for key, each in results if not each.get("adminAccess")}
    return Case(
        claims=pending,
        catalog=snapshot.catalog,
        nodes=nodes,
        classes=snapshot.tracker.inputs.classes,
        engine=CelSelectors(),
        used=snapshot.held,
        excluded={
            name: ", ".join(rejection.text for rejection in rejections)
            for name, rejections in rejected.items()
            if rejections
        },
        holder=lambda device: holders.get(device, ""),
        gates=snapshot.tracker.inputs.gates,
    )
