"""The status of a Deployment: counts and the conditions Available, Progressing and ReplicaFailure. Pure.

Source: pkg/controller/deployment/progress.go and sync.go of Kubernetes 1.36.
"""

from collections.abc import Sequence

from actors.controllers.workloads.common.conditions import entry, find, put, without
from actors.controllers.workloads.replicas.views import Rollout, SetView
from protocols.kube.meta import Object, meta, name_of
from protocols.kube.times import format_time, time_or

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def counts(deployment: Object, new: SetView | None, old: Sequence[SetView]) -> Object:
    """Return the status without its conditions."""
    everyone = [*old, *([new] if new else [])]
    available = sum(replica_set.available for replica_set in everyone)
    status = {
        "replicas": sum(replica_set.actual for replica_set in everyone),
        "updatedReplicas": new.actual if new else 0,
        "readyReplicas": sum(replica_set.ready for replica_set in everyone),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(replica_set.replicas for replica_set in everyone) - available),
        "terminatingReplicas": sum(replica_set.terminating_pods for replica_set in everyone),
        "observedGeneration": int(meta(deployment).get("generation") or 0),
    }
    collisions = (deployment.get("status") or {}).get("collisionCount")
    return status if collisions is None else {**status, "collisionCount": collisions}


def availability(rollout: Rollout, available: int, now: float) -> Object:
    """Return the condition Available, with the number of available pods in all ReplicaSets."""
    if available >= rollout.floor:
        text = "Deployment has minimum availability."
        return _entry(AVAILABLE, "True", "MinimumReplicasAvailable", text, now)
    text = "Deployment does not have minimum availability."
    return _entry(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now)


def complete(rollout: Rollout, status: Object) -> bool:
    """Return True when every pod is of the new revision and available."""
    sizes = {status["updatedReplicas"], status["replicas"], status["availableReplicas"]}
    return sizes == {rollout.replicas}


def paused_conditions(rollout: Rollout, conditions: Sequence[Object], now: float) -> list[Object]:
    """Record that the rollout was paused or resumed, so that the pause does not count as lack of progress."""
    known = find(conditions, PROGRESSING) or {}
    if rollout.deadline is None or known.get("reason") == TIMED_OUT:
        return list(conditions)
    if rollout.paused and known.get("reason") != PAUSED:
        return put(conditions, _entry(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now))
    if not rollout.paused and known.get("reason") == PAUSED:
        return put(conditions, _entry(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now))
    return list(conditions)


def progress(
    rollout: Rollout, deployment: Object, status: Object, conditions: Sequence[Object], new: SetView | None, now: float
) -> list[Object]:
    """Return the conditions after a pass of a rollout that is not paused."""
    if rollout.deadline is None:
        return without(conditions, PROGRESSING)
    known = find(conditions, PROGRESSING) or {}
    before = deployment.get("status") or {}
    if status["replicas"] == status["updatedReplicas"] and known.get("reason") == COMPLETE:
        return list(conditions)
    subject = f'ReplicaSet "{new.name}"' if new else f'Deployment "{name_of(deployment)}"'
    if complete(rollout, status):
        text = f"{subject} has successfully progressed."
        return put(conditions, _entry(PROGRESSING, "True", COMPLETE, text, now))
    if _progressing(before, status):
        moved = _entry(PROGRESSING, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
        if known.get("status") == "True":
            moved["lastTransitionTime"] = known.get("lastTransitionTime")
        return [*without(conditions, PROGRESSING), moved]
    if _timed_out(rollout, known, now):
        return put(conditions, _entry(PROGRESSING, "False", TIMED_OUT, f"{subject} has timed out progressing.", now))
    return list(conditions)


def _timed_out(rollout: Rollout, known: Object, now: float) -> bool:
    if not known or rollout.deadline is None or known.get("reason") == COMPLETE:
        return False
    return known.get("reason") == TIMED_OUT or _updated(known) + rollout.deadline < now


def next_check(rollout: Rollout, status: Object, conditions: Sequence[Object], now: float) -> float | None:
    """Return the seconds until the progress deadline; None when it does not run."""
    known = find(conditions, PROGRESSING)
    if rollout.deadline is None or rollout.paused or known is None or complete(rollout, status):
        return None
    if known.get("reason") in (TIMED_OUT, COMPLETE):
        return None
    return max(0.0, _updated(known) + rollout.deadline - now) + 1.0


def noticed(kind: str, name: str, now: float) -> Object:
    """Return the condition for a new revision; `kind` is `NewReplicaSetCreated` or `FoundNewReplicaSet`."""
    verb = "Created" if kind == "NewReplicaSetCreated" else "Found"
    return _entry(PROGRESSING, "True", kind, f'{verb} new replica set "{name}"', now)


def failure(new: SetView | None, old: Sequence[SetView], conditions: Sequence[Object], now: float) -> list[Object]:
    """Copy ReplicaFailure from the new revision, or else from old ones."""
    for replica_set in [*([new] if new else []), *old]:
        known = find((replica_set.obj.get("status") or {}).get("conditions") or (), FAILURE)
        if known is not None:
            copied = _entry(FAILURE, str(known.get("status")), str(known.get("reason")), str(known.get("message")), now)
            return put(conditions, copied)
    return without(conditions, FAILURE)


def _progressing(before: Object, status: Object) -> bool:
    old = {name: int(before.get(name) or 0) for name in COUNTS}
    grown = any(status[name] > old[name] for name in COUNTS[1:])
    return grown or status["replicas"] - status["updatedReplicas"] < old["replicas"] - old["updatedReplicas"]


def _updated(known: Object) -> float:
    return time_or(known.get("lastUpdateTime")) or time_or(known.get("lastTransitionTime"))


def _entry(kind: str, status: str, reason: str, message: str, now: float) -> Object:
    return entry(kind, status, reason, message, format_time(now), updated=True)


def create_failed(name: str, error: str, now: float) -> Object:
    """Return the condition Progressing of a Deployment whose new ReplicaSet was rejected."""
    text = f'Failed to create new replica set "{name}": {error}'
    return _entry(PROGRESSING, "False", "ReplicaSetCreateError", text, now)
