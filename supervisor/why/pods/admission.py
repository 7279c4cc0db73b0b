"""Pods that have a node which rejected them, or which has not admitted them yet."""

from collections.abc import Iterator

from protocols.kube.meta import condition_true
from protocols.kube.pods import is_finished, node_of
from protocols.trace import Row
from supervisor.calls.text import record_lines
from supervisor.why.model.text import ago, event_line, span_text
from supervisor.why.model.types import Finding, PodEvidence
from supervisor.why.others.plugins import SERVES, diagnose_plugin, plugin_sentence
from supervisor.why.pods.view import containers, requested, status_of

REJECTED = "Pod was rejected: "
"""Begin of the status message of a pod that a node rejected."""
POD_REJECTED = "pod rejected"
"""End of the outcome of a call whose answer the node did not accept."""
WAIT, FURTHER = "wait for plugin", ("admit", "sync", "sandbox")
"""Names of steps; those that a pod takes once it is admitted, or rejected."""


def rejected(found: PodEvidence) -> Finding | None:
    """Explain a pod that its node rejected: state Failed, with kubelet's reason."""
    status = status_of(found.pod or {})
    message = str(status.get("message") or "")
    if status.get("phase") != "Failed" or not message.startswith(REJECTED):
        return None
    reason = f"node {node_of(found.pod or {})} rejected it at admission: {status.get('reason')}: "
    troubled = [plugin for plugin in found.plugins if diagnose_plugin(plugin).state != SERVES]
    again = "a rejected pod is never tried again: delete it and create it anew, its controller does so by itself"
    return Finding(
        "rejected",
        reason + message.removeprefix(REJECTED),
        (*_failed_calls(found), *map(plugin_sentence, troubled), *_waited(found), *found.unread),
        (again, *(_look(plugin.resource) for plugin in troubled)),
    )


def no_such_node(found: PodEvidence) -> Finding | None:
    """Explain a pod that names a node which the API does not have."""
    pod = found.pod or {}
    if not _lacks_node(found) or status_of(pod).get("phase") != "Pending":
        return None
    reason = f"node {node_of(pod)} does not exist; a pod that names a node is left to it, no scheduler looks at it"
    advice = "correct or leave out spec.nodeName in a new pod; `kubectl get nodes` lists those there are"
    return Finding("waiting for its node", reason, (), (advice,))


def node_lost(found: PodEvidence) -> Finding | None:
    """Explain a pod whose node does not report, or is gone."""
    pod = found.pod or {}
    ready = found.node is not None and condition_true(found.node, "Ready")
    if is_finished(pod) or ready or (found.node is None and not _lacks_node(found)):
        return None
    name, advice = node_of(pod), f"see `nodeplane why node/{node_of(pod)}`"
    state = "is not Ready"
    if found.node is None:
        state, advice = "does not exist any more", "it is deleted after a while, unless its node registers again"
    reason = f"its node {name} {state}, so nothing is known of the pod since"
    return Finding("node not ready", reason, advice=(advice,))


def _lacks_node(found: PodEvidence) -> bool:
    """Return True if the API has no node of the name that the pod has."""
    unread = any(line.startswith("node could not be read") for line in found.unread)
    return bool(node_of(found.pod or {})) and found.node is None and not unread


def waits_for_plugin(found: PodEvidence) -> Finding | None:
    """Explain a pod that waits for its admission and requests devices of plugins."""
    pod = found.pod or {}
    if not _unadmitted(found) or not requested(pod):
        return None
    call = next((call for call in found.calls if not call.status), None)
    if call is not None:
        reason = (
            f"{call.method} of {call.peer} is in progress for {span_text(call.seconds)}: the plugin has not answered"
        )
        return Finding("waiting for its plugin", reason, tuple(record_lines(call)), (_look(call.peer),))
    away = [plugin for plugin in found.plugins if not plugin.connected]
    if not away:
        return None
    finding = diagnose_plugin(away[0])
    reason = f"the plugin of {away[0].resource} does not serve: {finding.reason}"
    return Finding("waiting for its plugin", reason, (*finding.evidence, *_waited(found)), (_look(away[0].resource),))


def not_admitted(found: PodEvidence) -> Finding | None:
    """Explain a pod that waits for its admission for any other reason."""
    if not _unadmitted(found):
        return None
    node = node_of(found.pod or {})
    if found.blind:
        return Finding("waiting for its node", f"node {node} has reported nothing of it yet", found.unread)
    seen = _seen(found)
    if seen is None:
        reason = f"node {node} has not seen it yet"
        return Finding("waiting for its node", reason, found.unread, ("see `nodeplane status` for podworker",))
    failures = [event_line(event) for event in found.events if event.kind == "Warning"]
    reason = f"node {node} saw it at {ago(seen.time_ns / 1e9, found.now)} and has not admitted it yet"
    return Finding("waiting for its node", reason, tuple(failures), ("see `nodeplane status` for podworker, devices",))


def _unadmitted(found: PodEvidence) -> bool:
    """Return True if the pod is bound, nothing of it runs, and its node has not admitted it, perhaps not again."""
    pod = found.pod or {}
    mine, status = containers(pod), status_of(pod)
    if found.blind and status.get("startTime"):  # written by a node with its first status, after admission
        return False
    if not node_of(pod) or is_finished(pod) or any(container.running for container in mine):
        return False
    if any(row.name in FURTHER for row in found.steps):
        return False
    if status.get("podIP") or any(container.ended or container.last or container.message for container in mine):
        return _seen(found) is not None  # it ran before its node restarted
    return status.get("phase") == "Pending"


def _seen(found: PodEvidence) -> Row | None:
    """Return the step in which the node's present process received the pod."""
    return next((row for row in found.steps if row.name == "seen" and row.actor.endswith("podworker")), None)


def _failed_calls(found: PodEvidence) -> Iterator[str]:
    failed = [call for call in found.calls if call.status not in ("OK", "") or call.outcome.endswith(POD_REJECTED)]
    for call in failed[-1:]:
        yield from record_lines(call)


def _waited(found: PodEvidence) -> Iterator[str]:
    for row in found.steps:
        if row.name == WAIT:
            yield f"it waited {span_text(row.duration_ns / 1e9)} for the plugin of {row.attributes.get('resource')}"


def _look(resource: str) -> str:
    return f"see `nodeplane why plugin/{resource}` and `nodeplane calls {resource}`"
