"""Pods that have a node which rejected them, or which has not admitted them yet."""

from collections.abc import Iterator

from protocols.kube.meta import condition_true, name_of
from supervisor.calls.text import record_lines
from supervisor.why.model.text import ago, event_line, span_text
from supervisor.why.model.types import Finding, PodEvidence
from supervisor.why.others.plugins import diagnose_plugin
from supervisor.why.pods.view import containers, node_of, requested, status_of

REJECTED = "Pod was rejected: "
"""Begin of the status message of a pod that a node rejected."""
ADMIT, SANDBOX, WAIT = "admit", "sandbox", "wait for plugin"
"""Names of steps."""
ENDED = ("Succeeded", "Failed")


def rejected(found: PodEvidence) -> Finding | None:
    status = status_of(found.pod or {})
    message = str(status.get("message") or "")
    if status.get("phase") != "Failed" or not message.startswith(REJECTED):
        return None
    reason = f"node {node_of(found.pod or {})} rejected it at admission: {status.get('reason')}: "
    return Finding(
        "rejected",
        reason + message.removeprefix(REJECTED),
        (*_failed_calls(found), *found.unread),
        ("a rejected pod is never tried again: delete it and create it anew, its controller does so by itself",),
    )


def node_lost(found: PodEvidence) -> Finding | None:
    """The node of the pod does not report."""
    pod = found.pod or {}
    if found.node is None or condition_true(found.node, "Ready") or status_of(pod).get("phase") in ENDED:
        return None
    name = name_of(found.node)
    reason = f"its node {name} is not Ready, so nothing is known of the pod since"
    return Finding("node not ready", reason, advice=(f"see `nodeplane why node/{name}`",))


def waits_for_plugin(found: PodEvidence) -> Finding | None:
    """The node has not admitted the pod, which requests devices of plugins."""
    pod = found.pod or {}
    if not _unadmitted(found) or not requested(pod):
        return None
    call = next((call for call in found.calls if not call.status), None)
    if call is not None:
        reason = (
            f"{call.method} of {call.peer} is in progress for {span_text(call.seconds)}: the plugin has not answered"
        )
        return Finding("waiting for its plugin", reason, tuple(record_lines(call)), (_look(call.peer),))
    away = [each for each in found.plugins if not each.connected]
    if not away:
        return None
    finding = diagnose_plugin(away[0])
    reason = f"the plugin of {away[0].resource} does not serve: {finding.reason}"
    return Finding("waiting for its plugin", reason, (*finding.evidence, *_waited(found)), (_look(away[0].resource),))


def not_admitted(found: PodEvidence) -> Finding | None:
    """The node has not looked at the pod, or waits for something else before it admits it."""
    if not _unadmitted(found):
        return None
    node = node_of(found.pod or {})
    seen = next((row for row in found.steps if row.name == "seen" and row.actor.endswith("podworker")), None)
    if seen is None:
        reason = f"node {node} has not seen it yet"
        return Finding("waiting for its node", reason, found.unread, ("see `nodeplane status` for podworker",))
    failures = [event_line(event) for event in found.events if event.kind == "Warning"]
    reason = f"node {node} saw it at {ago(seen.time_ns / 1e9, found.now)} and has not admitted it yet"
    return Finding("waiting for its node", reason, tuple(failures), ("see `nodeplane status` for podworker, devices",))


def _unadmitted(found: PodEvidence) -> bool:
    """Return True if the pod is bound and no step, container or status shows that it got further."""
    pod = found.pod or {}
    status = status_of(pod)
    if not node_of(pod) or status.get("phase") != "Pending":
        return False
    further = any(each.running or each.ended or each.last or each.message for each in containers(pod))
    return not further and not any(row.name in ("sync", SANDBOX) for row in found.steps) and not status.get("podIP")


def _failed_calls(found: PodEvidence) -> Iterator[str]:
    failed = [call for call in found.calls if call.status not in ("OK", "")]
    for call in failed[-1:]:
        yield from record_lines(call)


def _waited(found: PodEvidence) -> Iterator[str]:
    for row in found.steps:
        if row.name == WAIT:
            yield f"it waited {span_text(row.duration_ns / 1e9)} for the plugin of {row.attributes.get('resource')}"


def _look(resource: str) -> str:
    return f"see `nodeplane why plugin/{resource}` and `nodeplane calls {resource}`"
