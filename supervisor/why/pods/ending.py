"""Pods that end, ended, or are gone: evicted, preempted, terminating, failed, succeeded, deleted."""

import json
from collections.abc import Iterator

from protocols.kinds import views
from protocols.kube.meta import condition, condition_true, meta
from protocols.kube.objects import mapping, rows
from protocols.kube.pods import node_of
from protocols.kube.times import time_or
from protocols.trace import Row
from supervisor.why.model.text import ago, at, event_line, joined, span_text
from supervisor.why.model.types import Finding, PodEvidence
from supervisor.why.pods.running import how, log, probe_text
from supervisor.why.pods.view import ContainerView, alive, containers, deleted_at, spec_of, status_of

DISRUPTION = "DisruptionTarget"
EVICTED = {
    "DeletionByDeviceTaintManager": "its device has a taint with effect NoExecute that its claim does not tolerate",
    "DeletionByTaintManager": "its node has a taint with effect NoExecute that it does not tolerate",
    "PreemptionByScheduler": "the scheduler made room for a pod of higher priority",
    "EvictionByEvictionAPI": "somebody evicted it through the API",
    "TerminationByKubelet": "its node ended it",
    "DeletionByPodGC": "its node is gone",
}
"""Reasons of the condition DisruptionTarget."""
EVICT, PREEMPTED = "evict", "preempted"
"""Steps of the processes that evict, with the taint or the preemptor."""
HOOK = "preStop hook"
EVENTS = ("DeviceTaintManagerEviction", "TaintManagerEviction", "Preempted", "Evicted", "Preempting")


def evicted(found: PodEvidence) -> Finding | None:
    """Explain a pod with the condition DisruptionTarget, which names who ended it."""
    pod = found.pod or {}
    target = condition(pod, DISRUPTION) or {}
    ended = status_of(pod).get("phase") == "Failed" or deleted_at(pod)
    if target.get("status") != "True" or not ended:
        return None
    why = EVICTED.get(str(target.get("reason")), str(target.get("message") or target.get("reason")))
    detail = eviction_detail(found)
    when = ago(time_or(target.get("lastTransitionTime")), found.now)
    reason = f"it was evicted at {when}: {why}{f' ({detail})' if detail else ''}"
    state = "preempted" if target.get("reason") == "PreemptionByScheduler" else "evicted"
    evidence = (*_events(found), *(_terminating(found).evidence if deleted_at(pod) else ()))
    still = (_terminating(found).reason,) if deleted_at(pod) else ()
    return Finding(state, reason, (*still, *evidence))


def eviction_detail(found: PodEvidence) -> str:
    """Return the taint, its source and device, or the preemptor, as the evicting process recorded them."""
    row = _eviction(found.steps)
    if row is None:
        return ""
    words = [f"{key} {value}" for key, value in row.attributes.items() if key != "priority"]
    priority = row.attributes.get("priority")
    return joined(words) + (f" (priority {priority})" if priority else "")


def _eviction(steps: tuple[Row, ...]) -> Row | None:
    return next((row for row in reversed(steps) if row.name in (EVICT, PREEMPTED)), None)


def terminating(found: PodEvidence) -> Finding | None:
    """Explain a pod whose deletion was requested and that still exists."""
    return _terminating(found) if deleted_at(found.pod or {}) else None


def _terminating(found: PodEvidence) -> Finding:
    pod = found.pod or {}
    since = f"its deletion was requested at {ago(deleted_at(pod), found.now)}{_deleter(found)}"
    finalizers = [str(finalizer) for finalizer in meta(pod).get("finalizers") or ()]
    if running := alive(pod):
        return _stopping(found, since, running)
    if finalizers:
        holders = joined(f"{name}{_holder(pod, name)}" for name in finalizers)
        reason = f"{since}; nothing of it runs, but it is held by finalizer {holders}"
        return Finding("terminating", reason, (), ("the finalizer's owner removes it when its work is done",))
    if not node_of(pod):
        return Finding("terminating", f"{since}; it has no node, the API server removes it")
    return _at_node(found, since)


def _stopping(found: PodEvidence, since: str, running: list[ContainerView]) -> Finding:
    pod = found.pod or {}
    left = time_or(meta(pod).get("deletionTimestamp")) - found.now
    hooked = [container for container in running if mapping(mapping(container.spec.get("lifecycle")).get("preStop"))]
    ends = f"SIGKILL follows in {span_text(left)}, at the end of its grace period of {_grace(pod)} s"
    if left < 0:
        ends = f"its grace period of {_grace(pod)} s ended {span_text(-left)} ago"
    if hooked and not any(row.name == HOOK for row in found.steps):
        hook = probe_text(mapping(mapping(hooked[0].spec.get("lifecycle")).get("preStop")))
        reason = (
            f"{since}; container {hooked[0].name} still runs its preStop hook ({hook}), SIGTERM comes after it; {ends}"
        )
    else:
        names = joined(container.name for container in running)
        reason = f"{since}; container {names} was sent SIGTERM and still runs; {ends}"
    stops = [
        event_line(event) for event in found.events if event.reason in ("Killing", "FailedKillPod", "FailedPreStopHook")
    ]
    advice = "`kubectl delete pod --grace-period=1` shortens the wait"
    return Finding("terminating", reason, tuple(stops[-3:]), (advice,))


def _at_node(found: PodEvidence, since: str) -> Finding:
    node, pod = found.node, found.pod or {}
    if node is None or not condition_true(node, "Ready"):
        reason = (
            f"{since}; its node {node_of(pod)} {'does not exist' if node is None else 'is not Ready'} and cannot end it"
        )
        return Finding("terminating", reason, (), (f"see `nodeplane why node/{node_of(pod)}`",))
    failed = [event_line(event) for event in found.events if event.kind == "Warning" and event.at >= deleted_at(pod)]
    reason = f"{since}; its containers ended, the node gives back its claims, devices and volumes"
    return Finding("terminating", reason, tuple(failed[-3:]), ("see `nodeplane trace` for the step that is missing",))


def _grace(pod: views.Pod) -> int:
    return int(meta(pod).get("deletionGracePeriodSeconds") or 0)


def _deleter(found: PodEvidence) -> str:
    """Return who asked the API to delete the pod, from the trace."""
    users = [row.attributes.get("user", "") for row in found.steps if row.name == "delete" and "apiserver" in row.actor]
    return f" by {users[0]}" if users and users[0] else ""


def _holder(pod: views.Pod, finalizer: str) -> str:
    """Return who set a finalizer, by the managers of the object's fields."""
    entry = f"v:{json.dumps(finalizer)}"
    for manager in rows(meta(pod).get("managedFields")):
        owned = mapping(mapping(mapping(manager.get("fieldsV1")).get("f:metadata")).get("f:finalizers"))
        if entry in owned:
            return f" (set by {manager.get('manager')} at {manager.get('time')})"
    return ""


def failed(found: PodEvidence) -> Finding | None:
    """Explain a pod in phase Failed, by its reason or by a container's exit code."""
    pod = found.pod or {}
    status = status_of(pod)
    if status.get("phase") != "Failed":
        return None
    ended = [
        (container_status, container_status.ended)
        for container_status in containers(pod)
        if container_status.ended and container_status.ended.code and not container_status.sidecar
    ]
    why = str(status.get("reason") or "")
    reason = f"{why}: {status.get('message') or ''}".rstrip(": ") if why else "no container's status says why"
    evidence: tuple[str, ...] = tuple(_events(found))
    if ended and not why:
        container, run = ended[0]
        policy = container.spec.get("restartPolicy") or spec_of(pod).get("restartPolicy")
        reason = f"{container.kind} {container.name} {how(run, found.now)}, and its restart policy is {policy}"
        message = (f"termination message: {' '.join(run.message.split())}",) if run.message else ()
        evidence = (*message, *log(found, container.name))
    return Finding("failed", reason, evidence, ("a failed pod does not start again: its controller makes another one",))


def succeeded(found: PodEvidence) -> Finding | None:
    """Explain a pod in phase Succeeded."""
    pod = found.pod or {}
    if status_of(pod).get("phase") != "Succeeded":
        return None
    last = max((container.ended.finished for container in containers(pod) if container.ended), default=0.0)
    return Finding("succeeded", f"all its containers ended with exit code 0, the last one at {ago(last, found.now)}")


def gone(found: PodEvidence) -> Finding | None:
    """Explain a pod that the API no longer has, from events and trace."""
    if found.pod is not None:
        return None
    detail = eviction_detail(found)
    marked = [event for event in found.events if event.reason in EVENTS]
    deletions = [row for row in found.steps if row.name == "delete" and "apiserver" in row.actor]
    when = f" since {ago(deletions[-1].time_ns / 1e9, found.now)}" if deletions else ""
    reason = f"the API has no pod of this name{when}"
    if marked:
        reason += f"; it was evicted at {at(marked[-1].at)}: {marked[-1].reason}: {marked[-1].message}"
    elif deletions:
        reason += f"; {deletions[0].attributes.get('user', 'somebody')} deleted it"
    if detail:
        reason += f" ({detail})"
    return Finding("gone", reason, tuple(map(event_line, found.events[-5:])), ("`nodeplane trace` shows its life",))


def _events(found: PodEvidence) -> Iterator[str]:
    yield from (event_line(event) for event in found.events if event.reason in EVENTS)
