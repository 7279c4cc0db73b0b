"""The parts of Deployments and their ReplicaSets that a rollout needs. Pure."""

import msgspec

from actors.controllers.workloads.common.templates import scaled_value
from protocols.kube.meta import Object, annotations_of, meta, name_of, terminating, uid_of
from protocols.kube.times import time_or

PREFIX = "deployment.kubernetes.io"
REVISION, HISTORY = f"{PREFIX}/revision", f"{PREFIX}/revision-history"
DESIRED, MOST = f"{PREFIX}/desired-replicas", f"{PREFIX}/max-replicas"
DIGITS, LARGEST = 19, 2**63 - 1
NO_DEADLINE = 2**31 - 1
"""Value of progressDeadlineSeconds that means there is none."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The spec of a Deployment, with its percentages resolved."""

    replicas: int = 1
    recreate: bool = False
    surge: int = 0
    """Pods above `replicas` that a rolling update may make."""
    unavailable: int = 0
    """Pods below `replicas` that a rolling update may leave."""
    min_ready: int = 0
    deadline: int | None = None
    history: int | None = None
    paused: bool = False

    @property
    def ceiling(self) -> int:
        """Pods of all revisions at most."""
        return self.replicas + self.surge

    @property
    def floor(self) -> int:
        """Available pods of all revisions at least."""
        return self.replicas - self.unavailable


def rollout_of(deployment: Object) -> Rollout:
    """Read a Deployment's spec; percentages are resolved to numbers of pods."""
    spec = deployment.get("spec") or {}
    strategy = spec.get("strategy") or {}
    replicas, recreate = int(spec.get("replicas", 1)), strategy.get("type") == "Recreate"
    surge, unavailable = (0, 0) if recreate else _fenceposts(strategy.get("rollingUpdate") or {}, replicas)
    deadline = spec.get("progressDeadlineSeconds")
    return Rollout(
        replicas=replicas,
        recreate=recreate,
        surge=surge,
        unavailable=min(unavailable, replicas),
        min_ready=int(spec.get("minReadySeconds") or 0),
        deadline=None if deadline in (None, NO_DEADLINE) else int(deadline),
        history=spec.get("revisionHistoryLimit"),
        paused=bool(spec.get("paused")),
    )


def _fenceposts(update: Object, replicas: int) -> tuple[int, int]:
    """Return surge and unavailable; with both 0 nothing could move, so one pod may be unavailable."""
    surge = scaled_value(update.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled_value(update.get("maxUnavailable", "25%"), replicas, up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


class SetView(msgspec.Struct, frozen=True, kw_only=True):
    """One ReplicaSet of a Deployment."""

    name: str
    uid: str = ""
    replicas: int = 0
    actual: int = 0
    ready: int = 0
    available: int = 0
    terminating_pods: int = 0
    created: float = 0.0
    revision: int = 0
    desired: int | None = None
    """Size of the Deployment when this ReplicaSet was last scaled."""
    most: int | None = None
    observed: bool = True
    """Its controller has seen the current spec."""
    deleting: bool = False
    obj: Object = msgspec.field(default_factory=dict)


def set_view(obj: Object) -> SetView:
    """Read a ReplicaSet with the Deployment's annotations on it."""
    spec, status, notes = obj.get("spec") or {}, obj.get("status") or {}, annotations_of(obj)
    return SetView(
        name=name_of(obj),
        uid=uid_of(obj),
        replicas=int(spec.get("replicas", 1)),
        actual=int(status.get("replicas") or 0),
        ready=int(status.get("readyReplicas") or 0),
        available=int(status.get("availableReplicas") or 0),
        terminating_pods=int(status.get("terminatingReplicas") or 0),
        created=time_or(meta(obj).get("creationTimestamp")),
        revision=number(notes.get(REVISION)) or 0,
        desired=number(notes.get(DESIRED)),
        most=number(notes.get(MOST)),
        observed=int(status.get("observedGeneration") or 0) >= int(meta(obj).get("generation") or 0),
        deleting=terminating(obj),
        obj=obj,
    )


def number(text: str | None) -> int | None:
    """Read an annotation; anybody may write one."""
    if text is None or not 0 < len(text) <= DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return parsed if (parsed := int(text)) <= LARGEST else None
