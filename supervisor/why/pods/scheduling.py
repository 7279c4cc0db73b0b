"""Pods that have no node yet."""

from collections.abc import Iterator

from protocols.kube.meta import condition
from protocols.kube.pods import node_of
from supervisor.dra.why import Answer
from supervisor.dra.why_text import answer_parts, reason_of
from supervisor.why.model.fields import rows
from supervisor.why.model.text import joined
from supervisor.why.model.types import Finding, PodEvidence
from supervisor.why.others.plugins import plugin_sentence
from supervisor.why.pods.view import spec_of, status_of

GATED, PENDING = "scheduling gated", "pending"


def gated(found: PodEvidence) -> Finding | None:
    pod = found.pod or {}
    gates = [str(each.get("name")) for each in rows(spec_of(pod).get("schedulingGates"))]
    if node_of(pod) or not gates:
        return None
    reason = f"its scheduling {'gate' if len(gates) == 1 else 'gates'} {joined(gates)} must be removed first"
    return Finding(GATED, reason, advice=("the controller that owns the gate removes it, or `kubectl edit pod`",))


def missing_claim(found: PodEvidence) -> Finding | None:
    """The pod waits for somebody to create a claim."""
    answer = found.scheduling
    absent = [each for each in answer.claims if each.missing] if answer else []
    if not answer or not absent:
        return None
    return Finding(
        PENDING,
        f"claim {absent[0].claim}: {absent[0].state}",
        tuple(_evidence(found, answer)),
        ("create the ResourceClaim, or correct its name in the pod's resourceClaims",),
    )


def no_node(found: PodEvidence) -> Finding | None:
    """The scheduler found no node; the reason is that of nodes and devices, not of the event alone."""
    answer = found.scheduling
    if not answer or node_of(found.pod or {}):
        return None
    if nominated := str(status_of(found.pod or {}).get("nominatedNodeName") or ""):
        reason = f"it was promised room on node {nominated} and waits for the preempted pods to leave it"
        return Finding(PENDING, reason, tuple(_evidence(found, answer)))
    if answer.fitting:
        return _about_to(found, answer)
    reason = reason_of(answer)
    if not reason:
        return None
    gone = [each for each in found.plugins if not each.connected and each.resource in reason]
    if gone:
        reason = f"{reason}; {plugin_sentence(gone[0])}"
    advice = [f"see `nodeplane why plugin/{each.resource}`" for each in gone]
    return Finding(PENDING, reason, tuple(_evidence(found, answer)), tuple(advice or _advice(answer)))


def _about_to(found: PodEvidence, answer: Answer) -> Finding:
    if answer.message:
        reason = f"room suffices on {answer.fitting[0]}; the scheduler's last answer: {answer.message}"
    else:
        reason = "the scheduler has not tried it yet"
    waits = [wait for claim in answer.claims for wait in claim.waits]
    if waits:
        reason = f"its devices are allocated and not ready: {joined(waits)}"
    return Finding(PENDING, reason, tuple(_evidence(found, answer)), ("see `nodeplane status` for the scheduler",))


def unscheduled(found: PodEvidence) -> Finding | None:
    """Nothing but the scheduler's message is known, or not even that."""
    pod = found.pod or {}
    if node_of(pod):
        return None
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "")
    scheduler = str(spec_of(pod).get("schedulerName") or "default-scheduler")
    reason = message or f"scheduler {scheduler!r} has not tried it yet"
    return Finding(PENDING, reason, found.unread, ("see `nodeplane status` for the scheduler",) if not message else ())


def _evidence(found: PodEvidence, answer: Answer) -> Iterator[str]:
    if answer.message:
        yield f"scheduler: {answer.message}"
    lacking = "".join(each.text for each in answer.nodes)
    yield from (plugin_sentence(each) for each in found.plugins if each.connected and each.resource in lacking)
    for part in answer_parts(answer)[1:]:
        yield from str(part).splitlines()
    yield from found.unread


def _advice(answer: Answer) -> Iterator[str]:
    if answer.report.claims:
        yield f"see `nodeplane devices --why {answer.pod}`, and `nodeplane devices --patched`"
    elif any(each.rule == "resources" for each in answer.nodes):
        yield "request less, end pods that hold the resource (`nodeplane devices`), or start the plugin that serves it"
    elif answer.nodes:
        yield "change the pod's node selection or tolerations, or the node's labels or taints"
