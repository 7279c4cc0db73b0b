"""Informers that start when a controller first needs them: kinds that nobody limits cost nothing."""

from collections.abc import Callable, Coroutine
from typing import Any

from actors.controllers.common.informers import LateHandler, without_managed_fields
from protocols.kinds.table import PODS, Resource
from protocols.kube.meta import Object, fields_of, meta
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler

Spawn = Callable[[Coroutine[Any, Any, None], str], Any]
POD_SPEC = ("activeDeadlineSeconds", "affinity", "overhead", "priorityClassName", "resources")
CONTAINER = ("name", "resources", "restartPolicy")
STATUS = ("name", "resources", "allocatedResources")
CONDITIONS = ("Ready", "DisruptionTarget")


class LazyInformers:
    """One informer for each resource that was asked for."""

    def __init__(self, client: ApiClient, spawn: Spawn) -> None:
        self._client, self._spawn = client, spawn
        self._running: dict[Resource, tuple[Informer, LateHandler]] = {}
        self._following: set[tuple[Resource, ResourceEventHandler]] = set()

    def get(self, resource: Resource, handler: ResourceEventHandler | None = None) -> Informer:
        """Return the informer of a resource, started at the first call. `handler` learns of objects it has already."""
        if resource not in self._running:
            late = LateHandler()
            keep = trim_pod if resource is PODS else without_managed_fields
            informer = Informer(self._client, resource, InformerOptions(keep=keep), late)
            self._running[resource] = informer, late
            self._spawn(informer.run(), f"policies-{resource.plural}")
        informer, late = self._running[resource]
        if handler is not None and (resource, handler) not in self._following:
            self._following.add((resource, handler))
            late.add(handler, list(informer.items.values()))
        return informer


METADATA = (
    "name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences", "deletionTimestamp",
    "deletionGracePeriodSeconds",
)  # fmt: skip


def trim_pod(pod: Object) -> Object:
    """Return the pod with what quotas and disruption budgets read."""
    metadata, spec, status = meta(pod), pod.get("spec") or {}, pod.get("status") or {}
    kept = {
        "containers": _each(spec.get("containers"), CONTAINER),
        "initContainers": _each(spec.get("initContainers"), CONTAINER),
        **fields_of(spec, POD_SPEC),
    }
    conditions = [each for each in status.get("conditions") or () if each.get("type") in CONDITIONS]
    seen = {
        "phase": status.get("phase") or "",
        "qosClass": status.get("qosClass"),
        "conditions": conditions,
        "containerStatuses": _each(status.get("containerStatuses"), STATUS),
        "initContainerStatuses": _each(status.get("initContainerStatuses"), STATUS),
    }
    return {**PODS.type_meta, "metadata": fields_of(metadata, METADATA), "spec": kept, "status": seen}


def _each(rows: Any, fields: tuple[str, ...]) -> list[Object]:
    return [fields_of(row, fields) for row in rows or ()]
