"""Deployments: what to do with their ReplicaSets in one pass. Pure.

A pass makes one step; the changes it causes lead to the next pass. Writes carry the resourceVersion that the step was
decided on, so that a stale informer leads to a conflict and never to too many pods.
"""

from collections.abc import Sequence

import msgspec

from actors.controllers.workloads.common.conditions import find, put
from actors.controllers.workloads.common.pods import HASH, PodView
from actors.controllers.workloads.common.templates import owner_reference, same_template, template_hash, template_of
from actors.controllers.workloads.replicas.progress import (
    PROGRESSING,
    availability,
    complete,
    counts,
    failure,
    next_check,
    noticed,
    paused_conditions,
    progress,
)
from actors.controllers.workloads.replicas.scaling import Sizes, by_age, first_size, is_scaling, roll, scale
from actors.controllers.workloads.replicas.views import (
    DESIRED,
    HISTORY,
    MOST,
    REVISION,
    Rollout,
    SetView,
    number,
    rollout_of,
)
from protocols.kinds.table import REPLICASETS
from protocols.kube.meta import (
    LAST_APPLIED,
    Object,
    annotations_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    terminating,
)

OWN = frozenset((LAST_APPLIED, REVISION, HISTORY, DESIRED, MOST, "deprecated.deployment.rollback.to"))
"""Annotations of a Deployment that its ReplicaSets do not get."""
LONGEST_HISTORY = 2000
"""Characters of the list of a ReplicaSet's earlier revisions."""


class ReplicaSetChange(msgspec.Struct):
    """A change of one ReplicaSet, written as one patch."""

    view: SetView
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    replicas: int | None = None
    min_ready: int | None = None

    def patch(self) -> Object:
        metadata = meta(self.view.obj)
        body: Object = {"metadata": {"uid": self.view.uid, "resourceVersion": metadata.get("resourceVersion")}}
        if self.annotations:
            body["metadata"]["annotations"] = self.annotations
        spec = {"replicas": self.replicas, "minReadySeconds": self.min_ready}
        if changed := {name: value for name, value in spec.items() if value is not None}:
            body["spec"] = changed
        return body

    @property
    def scaled(self) -> bool:
        return self.replicas is not None and self.replicas != self.view.replicas


class DeploymentPlan(msgspec.Struct, kw_only=True):
    """Changes of one pass, which is one step of a rollout."""

    create: Object | None = None
    """A ReplicaSet for the current template."""
    changes: list[ReplicaSetChange] = msgspec.field(default_factory=list)
    delete: list[SetView] = msgspec.field(default_factory=list)
    revision: str | None = None
    """Revision for the Deployment's annotation, if it changed."""
    status: Object | None = None
    wait: float | None = None
    """Seconds until the next pass is due without a change."""


def find_new(deployment: Object, sets: Sequence[SetView]) -> SetView | None:
    """Return the oldest ReplicaSet with the current template."""
    template = template_of(deployment)
    return next(
        (replica_set for replica_set in by_age(sets) if same_template(template_of(replica_set.obj), template)), None
    )


def plan(deployment: Object, sets: Sequence[SetView], old_pods: Sequence[PodView], now: float) -> DeploymentPlan:
    """Decide one pass. `old_pods` are the pods of all its ReplicaSets but the new one."""
    rollout, new = rollout_of(deployment), find_new(deployment, sets)
    step = _Step(deployment, rollout, new, [replica_set for replica_set in by_age(sets) if replica_set is not new], now)
    if not terminating(deployment):
        step.notice_new()
        if rollout.paused or is_scaling(rollout, sets):
            step.rescale()
        elif rollout.recreate:
            step.recreate(old_pods)
        else:
            step.roll()
    return step.finish()


class _Step:
    """One pass in progress."""

    def __init__(
        self, deployment: Object, rollout: Rollout, new: SetView | None, old: list[SetView], now: float
    ) -> None:
        self._deployment, self._rollout, self._new, self._old, self._now = deployment, rollout, new, old, now
        self._changes: dict[str, ReplicaSetChange] = {}
        self._plan = DeploymentPlan()
        self._status = counts(deployment, new, old)
        known = (deployment.get("status") or {}).get("conditions") or []
        self._conditions = paused_conditions(rollout, known, now)

    # revisions

    def notice_new(self) -> None:
        new = self._new
        if new is None:
            return
        revision = max(new.revision, self._next_revision())
        change = ReplicaSetChange(new, annotations=_copied(self._deployment, new.obj))
        if revision > new.revision:
            change.annotations |= _revised(new, revision)
        if int((new.obj.get("spec") or {}).get("minReadySeconds") or 0) != self._rollout.min_ready:
            change.min_ready = self._rollout.min_ready
        if change.annotations or change.min_ready is not None:
            self._changes[new.name] = change
        self._mark(revision)
        if self._rollout.deadline is not None and find(self._conditions, PROGRESSING) is None:
            self._conditions = put(self._conditions, noticed("FoundNewReplicaSet", new.name, self._now))

    def _next_revision(self) -> int:
        return max((replica_set.revision for replica_set in self._old), default=0) + 1

    def _mark(self, revision: int) -> None:
        if annotations_of(self._deployment).get(REVISION) != str(revision):
            self._plan.revision = str(revision)

    def _create(self) -> None:
        everyone, revision = self._old, self._next_revision()
        size = first_size(self._rollout, everyone)
        replica_set = new_set(self._deployment, self._rollout, revision, size)
        self._plan.create = replica_set
        self._mark(revision)
        if self._rollout.deadline is not None:
            self._conditions = put(self._conditions, noticed("NewReplicaSetCreated", name_of(replica_set), self._now))

    # sizes

    def rescale(self) -> None:
        before = int((self._deployment.get("status") or {}).get("replicas") or 0)
        self._resize(scale(self._rollout, self._new, self._old, before))
        if self._rollout.paused:
            self._clean()

    def roll(self) -> None:
        if self._new is None:
            return self._create()
        self._resize(roll(self._rollout, self._new, self._old))
        return self._clean_if_complete()

    def recreate(self, old_pods: Sequence[PodView]) -> None:
        active = {replica_set.name: 0 for replica_set in self._old if replica_set.replicas > 0}
        if active:
            return self._resize(active)
        if any(not pod.finished for pod in old_pods) or any(
            replica_set.actual or not replica_set.observed for replica_set in self._old
        ):
            return None
        if self._new is None:
            return self._create()
        self._resize({self._new.name: self._rollout.replicas})
        return self._clean_if_complete()

    def _resize(self, sizes: Sizes) -> None:
        views = {replica_set.name: replica_set for replica_set in [*self._old, *([self._new] if self._new else [])]}
        for name, size in sizes.items():
            view = views[name]
            notes = {DESIRED: str(self._rollout.replicas), MOST: str(self._rollout.ceiling)}
            differ = {key: text for key, text in notes.items() if annotations_of(view.obj).get(key) != text}
            if size != view.replicas or differ:
                change = self._changes.setdefault(name, ReplicaSetChange(view))
                change.annotations |= differ
                change.replicas = size

    def _clean_if_complete(self) -> None:
        if complete(self._rollout, self._status) and self._new is not None and self._new.observed:
            self._clean()

    def _clean(self) -> None:
        """Delete the oldest revisions above revisionHistoryLimit that have no pods."""
        if self._rollout.history is None:
            return
        old = sorted(
            (replica_set for replica_set in self._old if not replica_set.deleting), key=lambda each: each.revision
        )
        surplus = old[: max(0, len(old) - self._rollout.history)]
        self._plan.delete = [
            replica_set
            for replica_set in surplus
            if not replica_set.actual and not replica_set.replicas and replica_set.observed
        ]

    # status

    def finish(self) -> DeploymentPlan:
        rollout, now = self._rollout, self._now
        conditions = put(self._conditions, availability(rollout, self._status["availableReplicas"], now))
        if not rollout.paused and not terminating(self._deployment):
            conditions = progress(rollout, self._deployment, self._status, conditions, self._new, now)
        conditions = failure(self._new, self._old, conditions, now)
        self._plan.changes = list(self._changes.values())
        self._plan.status = {**self._status, "conditions": conditions}
        self._plan.wait = next_check(rollout, self._status, conditions, now)
        return self._plan


def new_set(deployment: Object, rollout: Rollout, revision: int, size: int) -> Object:
    """Return the ReplicaSet of the current template."""
    template, spec = template_of(deployment), deployment.get("spec") or {}
    digest = template_hash(template, int((deployment.get("status") or {}).get("collisionCount") or 0))
    labels = {**labels_of(template), HASH: digest}
    selector = spec.get("selector") or {}
    notes = {DESIRED: str(rollout.replicas), MOST: str(rollout.ceiling), REVISION: str(revision)}
    return {
        **REPLICASETS.type_meta,
        "metadata": {
            "name": f"{name_of(deployment)}-{digest}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "annotations": {**_copied(deployment, {}), **notes},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": rollout.min_ready,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
            "template": {**template, "metadata": {**meta(template), "labels": labels}},
        },
    }


def _copied(deployment: Object, replica_set: Object) -> dict[str, str]:
    """Return the annotations of the Deployment that the ReplicaSet lacks."""
    known = annotations_of(replica_set)
    return {key: text for key, text in annotations_of(deployment).items() if key not in OWN and known.get(key) != text}


def _revised(view: SetView, revision: int) -> dict[str, str]:
    """Return the annotations of a ReplicaSet that becomes the latest revision; earlier numbers are retained."""
    annotations = {REVISION: str(revision)}
    if view.revision:
        known = annotations_of(view.obj).get(HISTORY) or ""
        earlier = [each for each in known.split(",") if number(each) is not None]
        text = ",".join([*earlier, str(view.revision)])
        while len(text) > LONGEST_HISTORY:
            text = text.partition(",")[2]
        annotations[HISTORY] = text
    return annotations
