"""Pods that have no node yet."""

from collections.abc import Iterator

from protocols.kube.meta import condition
from protocols.kube.objects import rows
from protocols.kube.pods import node_of
from supervisor.dra.why import PodAnswer
from supervisor.dra.why_text import answer_parts, reason_of
from supervisor.why.model.text import joined
from supervisor.why.model.types import Finding, PluginEvidence, PodEvidence
from supervisor.why.others.plugins import diagnose_plugin, plugin_sentence
from supervisor.why.pods.view import spec_of, status_of

GATED, PENDING = "scheduling gated", "pending"
DEFAULT = "default-scheduler"
FAILED_CLAIM = "FailedResourceClaimCreation"
"""Event of the controller that makes claims from templates."""
ADVICE = {
    "host ports": "end the pod that uses the port, or choose another hostPort",
    "unschedulable": "`kubectl uncordon` the node",
    "resources": "request less, end pods that hold the resource (`nodeplane devices`), or start its plugin",
}
"""By the rule that rejects a node."""


def gated(found: PodEvidence) -> Finding | None:
    """Explain a pod with scheduling gates, which no scheduler considers."""
    pod = found.pod or {}
    gates = [str(row.get("name")) for row in rows(spec_of(pod).get("schedulingGates"))]
    if node_of(pod) or not gates:
        return None
    reason = f"its scheduling {'gate' if len(gates) == 1 else 'gates'} {joined(gates)} must be removed first"
    return Finding(GATED, reason, advice=("the controller that owns the gate removes it, or `kubectl edit pod`",))


def other_scheduler(found: PodEvidence) -> Finding | None:
    """Explain a pod for a scheduler that the plane does not have."""
    pod = found.pod or {}
    name = str(spec_of(pod).get("schedulerName") or DEFAULT)
    if node_of(pod) or name == DEFAULT or condition(pod, "PodScheduled"):
        return None
    reason = f"its schedulerName is {name!r}, and no scheduler of this name has reported anything about it"
    return Finding(PENDING, reason, found.unread, (f"start that scheduler, or leave out schedulerName: {DEFAULT}",))


def missing_claim(found: PodEvidence) -> Finding | None:
    """Explain a pod that waits for somebody to create a claim."""
    answer = found.scheduling
    absent = [claim for claim in answer.claims if claim.missing] if answer else []
    if not answer or not absent:
        return None
    failed = next((event.message for event in reversed(found.events) if event.reason == FAILED_CLAIM), "")
    reason = failed or f"claim {absent[0].claim}: {absent[0].state}"
    missing = "ResourceClaimTemplate" if failed else "ResourceClaim"
    advice = f"create the {missing}, or correct its name in the pod's resourceClaims"
    return Finding(PENDING, reason, tuple(_evidence(found, answer)), (advice,))


def no_node(found: PodEvidence) -> Finding | None:
    """Explain a pod for which there is no node, by nodes and devices and not by the event alone."""
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
    gone = [plugin for plugin in found.plugins if not plugin.connected and plugin.resource in reason]
    if gone:
        reason = f"{reason}; {plugin_sentence(gone[0])}"
    advice = [line for plugin in gone for line in _plugin_advice(plugin)]
    return Finding(PENDING, reason, tuple(_evidence(found, answer)), tuple(advice or _advice(answer)))


def _about_to(found: PodEvidence, answer: PodAnswer) -> Finding:
    evidence = tuple(_evidence(found, answer))
    if waits := [wait for claim in answer.claims for wait in claim.waits]:
        return Finding(PENDING, f"its devices are allocated and not ready: {joined(waits)}", evidence)
    if answer.message:
        return Finding(PENDING, f"no node can run it: {_own_words(answer.message)}", evidence)
    advice = ("see `nodeplane status` for the scheduler",)
    return Finding(PENDING, "the scheduler has not tried it yet", evidence, advice)


def _own_words(message: str) -> str:
    """Return a scheduler's message without the count of nodes and the words about preemption."""
    reason = message.partition(" nodes are available: ")[2].partition(" preemption: ")[0] or message
    return reason.partition(". no new claims")[0].partition(". still not schedulable")[0].rstrip(".,")


def _plugin_advice(plugin: PluginEvidence) -> Iterator[str]:
    """Return what to do about a plugin that is away; `nodeplane why` knows only one that once registered."""
    if plugin.known or plugin.plugins or plugin.calls:
        yield f"see `nodeplane why plugin/{plugin.resource}`"
    else:
        yield from diagnose_plugin(plugin).advice


def unscheduled(found: PodEvidence) -> Finding | None:
    """Explain a pod without a node by the scheduler's message, if there is any."""
    pod = found.pod or {}
    if node_of(pod):
        return None
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "")
    scheduler = str(spec_of(pod).get("schedulerName") or "default-scheduler")
    reason = message or f"scheduler {scheduler!r} has not tried it yet"
    return Finding(PENDING, reason, found.unread, ("see `nodeplane status` for the scheduler",) if not message else ())


def _evidence(found: PodEvidence, answer: PodAnswer) -> Iterator[str]:
    if answer.message:
        yield f"scheduler: {answer.message}"
    lacking = "".join(node.text for node in answer.nodes)
    yield from (plugin_sentence(plugin) for plugin in found.plugins if plugin.connected and plugin.resource in lacking)
    for part in answer_parts(answer)[1:]:
        yield from str(part).splitlines()
    yield from found.unread


def _advice(answer: PodAnswer) -> Iterator[str]:
    if answer.report.claims:
        yield f"see `nodeplane devices --why {answer.pod}`, and `nodeplane devices --patched`"
    elif answer.nodes:
        rules = [node.rule for node in answer.nodes]
        known = next((ADVICE[rule] for rule in ADVICE if rule in rules), "")
        yield known or "change the pod's node selection or tolerations, or the node's labels or taints"
