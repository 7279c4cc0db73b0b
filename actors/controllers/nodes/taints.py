"""Taints that a node must have because of its conditions, and when they evict a pod. Pure.

- Every bad condition, and `spec.unschedulable`, has a NoSchedule taint.
- A node that is not Ready also has a NoExecute taint, `not-ready` or `unreachable`; NodeDisruption says when it may be
  added, since it evicts pods.
- Taints with other keys or effects belong to users and stay as they are.

Source: pkg/controller/nodelifecycle and pkg/controller/tainteviction of Kubernetes 1.36.
"""

from collections.abc import Iterable, Mapping

from protocols.kinds import views
from protocols.kube.meta import condition, meta
from protocols.kube.taints import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, Taint, seconds_tolerated, taint_text
from protocols.kube.times import now, time_or

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
MANAGED = frozenset({*BY_CONDITION.values(), UNSCHEDULABLE})
EXECUTE_KEYS = (NOT_READY, UNREACHABLE)


def is_ready(node: views.Node) -> bool:
    """Return True if condition Ready is "True"; a node without it is not ready."""
    return (condition(node, "Ready") or {}).get("status") == "True"


def schedule_keys(node: views.Node) -> list[str]:
    """Return the keys of the NoSchedule taints that the node's conditions call for."""
    entries = (node.get("status") or {}).get("conditions") or ()
    candidates = [BY_CONDITION.get((entry.get("type") or "", entry.get("status") or "")) for entry in entries]
    keys = [key for key in candidates if key is not None]
    return [*keys, UNSCHEDULABLE] if (node.get("spec") or {}).get("unschedulable") else keys


def execute_key(node: views.Node) -> str:
    """Return the key of the NoExecute taint that the node's Ready condition calls for; empty if none."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get((condition(node, "Ready") or {}).get("status") or "", "")


def taints_of(node: views.Node) -> list[views.Taint]:
    """Return spec.taints; entries that are no objects are left out."""
    return [taint for taint in (node.get("spec") or {}).get("taints") or () if isinstance(taint, dict)]


def desired_taints(node: views.Node, execute: str) -> list[views.Taint]:
    """Return all taints of the node as they must be; `execute` is the key of its NoExecute taint, empty for none.

    The order of present taints does not change, so a node in the desired state compares equal.
    """
    wanted = [(key, NO_SCHEDULE) for key in schedule_keys(node)] + ([(execute, NO_EXECUTE)] if execute else [])
    present = taints_of(node)
    kept = [taint for taint in present if not _is_managed(taint) or _identity(taint) in wanted]
    present_now = {_identity(taint) for taint in kept}
    return kept + [_taint(*identity) for identity in dict.fromkeys(wanted) if identity not in present_now]


def _is_managed(taint: views.Taint) -> bool:
    key, effect = _identity(taint)
    return (effect == NO_SCHEDULE and key in MANAGED) or (effect == NO_EXECUTE and key in EXECUTE_KEYS)


def _identity(taint: views.Taint) -> tuple[str, str]:
    return str(taint.get("key") or ""), str(taint.get("effect") or "")


def _taint(key: str, effect: str) -> views.Taint:
    """Return a new taint; upstream stamps both effects with the time."""
    return {"key": key, "effect": effect, "timeAdded": now()}


def has_execute_taint(node: views.Node) -> bool:
    """Return True if the node has a NoExecute taint of this controller."""
    return any(_identity(taint) in ((key, NO_EXECUTE) for key in EXECUTE_KEYS) for taint in taints_of(node))


def execute_taints(node: views.Node) -> list[views.Taint]:
    """Return all NoExecute taints, those of users included."""
    return [taint for taint in taints_of(node) if taint.get("effect") == NO_EXECUTE]


def eviction_time(pod: views.Pod, taints: Iterable[views.Taint], seen: Mapping[str, float]) -> tuple[float, str] | None:
    """Return when a NoExecute taint of a pod's node evicts it, in seconds since the epoch, and which; None for never.

    A toleration's seconds begin when the taint was added or the pod started, whichever is later. So a restart of the
    controller does not extend them. A taint of `kubectl taint` has no `timeAdded`: it counts from when it was `seen`,
    by its key.
    """
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    started = time_or((pod.get("status") or {}).get("startTime") or meta(pod).get("creationTimestamp"))
    deadlines = []
    for taint in taints:
        key, effect = _identity(taint)
        read = Taint(key, str(taint.get("value") or ""), effect)
        borne = seconds_tolerated(read, tolerations)
        if borne is not None:
            added = time_or(taint.get("timeAdded"), seen.get(key, 0.0))
            deadlines.append((max(started, added) + borne, taint_text(read)))
    return min(deadlines, default=None)
