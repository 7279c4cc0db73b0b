"""Why a pod waits for its devices: its claims, the nodes it may use, and the rules that reject devices."""

from collections.abc import Iterable

import msgspec

from protocols.dra.allocator import Claim, Node, claim_of
from protocols.dra.allocator.extended import TooManyRequests, backing
from protocols.dra.allocator.plan import CelSelectors
from protocols.dra.diagnosis.diagnose import Diagnosis
from protocols.dra.diagnosis.types import Case, Report
from protocols.dra.gates import Gates
from protocols.dra.pods import allocation_of, device_of, extended_claim_key, results_of
from protocols.dra.types import DeviceId
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object, condition, condition_true, key_of, labels_of, name_of
from protocols.kube.selectors import selects, term_matches
from protocols.kube.taints import UNSCHEDULABLE_TAINT, node_taints, taint_text, tolerated, untolerated
from supervisor.base.errors import SupervisorError
from supervisor.dra.claims import ClaimState, claim_for_extended_resources, named_claims
from supervisor.dra.snapshot import DeviceSnapshot, snapshot_of


class Answer(msgspec.Struct, frozen=True):
    pod: str
    node: str
    """Empty while the pod waits."""
    message: str
    """Message of the pod's PodScheduled condition."""
    claims: tuple[ClaimState, ...]
    report: Report
    unreadable: tuple[str, ...] = ()


def pod_answer(pod: Object, objects: list[Object], gates: Gates) -> Answer:
    """Raises SupervisorError for objects of the wrong shape, which another server may have admitted."""
    try:
        return _answer(pod, objects, gates)
    except TooManyRequests as error:
        raise SupervisorError(f"pod {key_of(pod)}: {error}") from None
    except SHAPE_ERRORS as error:
        raise SupervisorError(
            f"an object of pod {key_of(pod)} has a field of the wrong shape: {error!r:.200}"
        ) from None


def _answer(pod: Object, objects: list[Object], gates: Gates) -> Answer:
    claims = {key_of(obj): obj for obj in objects if obj.get("kind") == "ResourceClaim"}
    own = list(named_claims(pod, claims))
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    snapshot = snapshot_of(objects, gates)
    pending = [claim_of(claims[each.claim]) for each in own if each.state == "pending"]
    extended = claim_for_extended_resources(pod, backing(snapshot.tracker.inputs.classes.values()))
    named = extended_claim_key(pod)
    if extended is not None and not node and named not in claims:  # a claim of a failed attempt is deleted
        own = [each for each in own if each.claim != named]
        own.append(ClaimState(extended.key, "not created: the scheduler creates it for extended resources"))
        pending.append(extended)
    allocated = [claims[each.claim] for each in own if each.state == "allocated"]
    case = _case(pod, objects, allocated, tuple(pending), snapshot)
    report = Diagnosis(case).run() if pending and not node else Report((), ())
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "")
    return Answer(key_of(pod), node, message, tuple(own), report, tuple(snapshot.unreadable))


def _case(
    pod: Object, objects: list[Object], allocated: list[Object], pending: tuple[Claim, ...], snapshot: DeviceSnapshot
) -> Case:
    nodes, excluded = [], {}
    holders: dict[DeviceId, str] = {}
    for obj in objects:
        if obj.get("kind") == "Node":
            if why := exclusion(pod, obj, allocated):
                excluded[name_of(obj)] = why
            else:
                nodes.append(Node(name_of(obj), labels_of(obj)))
        elif obj.get("kind") == "ResourceClaim":
            holders |= {device_of(each): key_of(obj) for each in results_of(obj) if not each.get("adminAccess")}
    return Case(
        claims=pending,
        catalog=snapshot.catalog,
        nodes=tuple(sorted(nodes, key=lambda each: each.name)),
        classes=snapshot.tracker.inputs.classes,
        engine=CelSelectors(),
        used=snapshot.held,
        excluded=excluded,
        holder=lambda device: holders.get(device, ""),
        gates=snapshot.tracker.inputs.gates,
    )


def exclusion(pod: Object, node: Object, allocated: Iterable[Object] = ()) -> str:
    """Return why the pod cannot use the node whatever its devices, or ""; cpu and memory are left to the scheduler."""
    spec, name, labels = pod.get("spec") or {}, name_of(node), labels_of(node)
    tolerations = spec.get("tolerations") or ()
    if not condition_true(node, "Ready"):
        return "not ready"
    if (node.get("spec") or {}).get("unschedulable") and not tolerated(UNSCHEDULABLE_TAINT, tolerations):
        return "unschedulable"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "does not match the pod's nodeSelector"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required and not any(term_matches(term, name, labels) for term in required.get("nodeSelectorTerms") or ()):
        return "does not match the pod's node affinity"
    if (taint := untolerated(node_taints(node), tolerations)) is not None:
        return f"untolerated taint {taint_text(taint)}"
    for claim in allocated:
        selector = (allocation_of(claim) or {}).get("nodeSelector")
        if selector and not selects(selector, name, labels):
            return f"claim {key_of(claim)} is allocated for other nodes"
    return ""
