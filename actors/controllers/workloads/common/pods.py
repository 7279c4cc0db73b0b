"""The parts of a pod that the controllers of workloads decide on. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from protocols.kinds.table import PODS
from protocols.kube.meta import (
    Object,
    annotations_of,
    condition,
    controller_of,
    fields_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    uid_of,
)
from protocols.kube.objects import items
from protocols.kube.pods import DELETION_COST, FINISHED, is_finished, node_of, sidecars_of
from protocols.kube.times import time_or

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
GENERATION = "pod-template-generation"
NOTES = (DELETION_COST, COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED)
METADATA = (
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels",
    "ownerReferences", "finalizers",
)  # fmt: skip


class ContainerExit(msgspec.Struct, frozen=True):
    """Exit code of a container, for the rules of a pod failure policy."""

    container: str
    code: int


class ControllerOwner(msgspec.Struct, frozen=True):
    """The owner reference that has `controller: true`."""

    kind: str
    name: str
    uid: str


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """One pod. Times are seconds since the epoch, 0 where the API has none."""

    name: str
    uid: str = ""
    namespace: str = "default"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    owner: ControllerOwner | None = None
    node: str = ""
    target: str = ""
    """The node that it runs on or, by its affinity, has to run on."""
    phase: str = "Pending"
    deleting: bool = False
    created: float = 0.0
    ready: bool = False
    ready_since: float = 0.0
    restarts: int = 0
    """Restarts of all containers."""
    most_restarts: tuple[int, int] = (0, 0)
    """Restarts of the app container, and of the sidecar, that has most."""
    cost: int = 0
    index: int | None = None
    """Completion index of a job's pod."""
    index_failures: int = 0
    """Earlier failures of its index, for a Job with `backoffLimitPerIndex`."""
    index_ignored: int = 0
    tracked: bool = False
    """True while the Job controller's finalizer holds it."""
    exits: tuple[ContainerExit, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    ended: float = 0.0
    """Time at which it finished."""
    obj: Object = msgspec.field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def active(self) -> bool:
        return not self.finished and not self.deleting

    def available(self, min_ready: float, now: float) -> bool:
        return self.ready and (not min_ready or (self.ready_since > 0 and self.ready_since + min_ready <= now))


def pod_view(pod: Object) -> PodView:
    """Read a pod; fields of the wrong type count as absent."""
    status, ready = pod.get("status") or {}, condition(pod, "Ready") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    metadata = meta(pod)
    return PodView(
        name=name_of(pod),
        uid=uid_of(pod),
        namespace=namespace_of(pod),
        labels=labels_of(pod),
        owner=owner_of(pod),
        node=node_of(pod),
        target=target_of(pod),
        phase=str(status.get("phase") or "Pending"),
        deleting=bool(metadata.get("deletionTimestamp")),
        created=time_or(metadata.get("creationTimestamp")),
        ready=ready.get("status") == "True",
        ready_since=time_or(ready.get("lastTransitionTime")),
        restarts=sum(int(container.get("restartCount") or 0) for container in containers),
        most_restarts=_most_restarts(pod),
        cost=_integer(annotations_of(pod).get(DELETION_COST)) or 0,
        index=_integer(annotations_of(pod).get(COMPLETION_INDEX)),
        index_failures=max(0, _integer(annotations_of(pod).get(INDEX_FAILURES)) or 0),
        index_ignored=max(0, _integer(annotations_of(pod).get(INDEX_IGNORED)) or 0),
        tracked=JOB_TRACKING in (metadata.get("finalizers") or ()),
        exits=tuple(_exits(containers)),
        conditions=tuple(
            (str(shown.get("type")), str(shown.get("status"))) for shown in status.get("conditions") or ()
        ),
        ended=_ended(pod, containers, ready),
        obj=pod,
    )


def owner_of(obj: Object) -> ControllerOwner | None:
    """Return the workload that controls the object."""
    owner = controller_of(obj)
    return ControllerOwner(str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid"))) if owner else None


def target_of(pod: Object) -> str:
    """Return the node that a pod is bound to, or that its affinity names."""
    if node := node_of(pod):
        return node
    required = _required_affinity(pod)
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            values = list(field.get("values") or ())
            if (field.get("key"), field.get("operator")) == ("metadata.name", "In") and len(values) == 1:
                return str(values[0])
    return ""


def _required_affinity(pod: Object) -> Mapping[str, Any]:
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}


def _integer(text: object) -> int | None:
    try:
        return int(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _exits(containers: Iterable[Mapping[str, Any]]) -> Iterable[ContainerExit]:
    for container in containers:
        ended = (container.get("state") or {}).get("terminated") or {}
        if "exitCode" in ended:
            yield ContainerExit(str(container.get("name")), int(ended["exitCode"]))


def _ended(pod: Object, containers: Iterable[Mapping[str, Any]], ready: Mapping[str, Any]) -> float:
    if not is_finished(pod):
        return 0.0
    ends = [
        time_or(((container.get("state") or {}).get("terminated") or {}).get("finishedAt")) for container in containers
    ]
    metadata = meta(pod)
    others = (ready.get("lastTransitionTime"), metadata.get("deletionTimestamp"), metadata.get("creationTimestamp"))
    return max(ends, default=0.0) or next((at for text in others if (at := time_or(text))), 0.0)


def _most_restarts(pod: Object) -> tuple[int, int]:
    sidecars = {container.get("name") for container in sidecars_of(pod)}
    inits, apps = (items(pod, "status", name) for name in STATUSES)
    return _most(apps), _most(status for status in inits if status.get("name") in sidecars)


def _most(statuses: Iterable[Mapping[str, Any]]) -> int:
    return max((int(status.get("restartCount") or 0) for status in statuses), default=0)


def trim_pod(pod: Object) -> Object:
    """Return the pod with only what `pod_view` reads."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    kept = fields_of(meta(pod), METADATA)
    if notes := fields_of(annotations_of(pod), NOTES):
        kept["annotations"] = notes
    sidecars = [fields_of(container, ("name", "restartPolicy")) for container in sidecars_of(pod)]
    return {
        **PODS.type_meta,
        "metadata": kept,
        "spec": {
            "nodeName": spec.get("nodeName") or "",
            **({"initContainers": sidecars} if sidecars else {}),
            **_affinity(pod),
        },
        "status": {
            "phase": status.get("phase") or "Pending",
            "conditions": [fields_of(shown, CONDITION) for shown in status.get("conditions") or ()],
            **{name: [_container(container) for container in status[name]] for name in STATUSES if status.get(name)},
        },
    }


CONDITION = ("type", "status", "lastTransitionTime")
STATUSES = ("initContainerStatuses", "containerStatuses")


def _affinity(pod: Object) -> Object:
    required = _required_affinity(pod) if not node_of(pod) else {}
    if not required:
        return {}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _container(status: Mapping[str, Any]) -> Object:
    fields = fields_of(status, ("name", "restartCount"))
    if ended := (status.get("state") or {}).get("terminated"):
        fields["state"] = {"terminated": fields_of(ended, ("exitCode", "finishedAt"))}
    return fields
