"""The controllers of quotas, disruption budgets and admission policies, and the informers that they share.

The informers of garbage collection count the objects of most kinds; the kinds of which quotas read more get an informer
of their own when a quota limits them.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from actors.controllers.common.informers import LateHandler, without_managed_fields
from actors.controllers.policies.admission_status import AdmissionPolicyStatusController
from actors.controllers.policies.budgets import DisruptionController
from actors.controllers.policies.quotas import QuotaController
from actors.controllers.policies.scales import FindKind
from protocols.actor import Context
from protocols.kinds.table import (
    PERSISTENTVOLUMECLAIMS,
    PODDISRUPTIONBUDGETS,
    PODS,
    RESOURCECLAIMS,
    RESOURCEQUOTAS,
    SERVICES,
    VALIDATINGADMISSIONPOLICIES,
    Resource,
)
from protocols.kube.meta import Object, fields_of, meta
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder, RecorderOptions
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler

WHOLE = {each.full_name: each for each in (PODS, SERVICES, PERSISTENTVOLUMECLAIMS, RESOURCECLAIMS)}
"""Resources of which quotas read more than metadata."""


class RunningPolicies:
    """Controllers that were started; each begins with the first object of its kind."""

    def __init__(self, client: ApiClient, context: Context, find: FindKind, metadata: Mapping[str, Informer]) -> None:
        """`metadata` holds the informers of garbage collection by the full names of their resources."""
        self._context, self._metadata = context, metadata
        self._informers = LazyInformers(client, context.spawn)
        self._whole: dict[str, ResourceEventHandler] = {}
        """Handlers of the resources that have an informer of their own."""
        self._quotas = QuotaController(client, context.log, self._source)
        self._recorder = EventRecorder(client, RecorderOptions(component="controllermanager"))
        self._budgets = DisruptionController(client, self._recorder, context.log, find, self._pods)
        self._admission = AdmissionPolicyStatusController(client, context.log)
        self._begins = {
            RESOURCEQUOTAS: self._begin_quotas,
            PODDISRUPTIONBUDGETS: self._begin_budgets,
            VALIDATINGADMISSIONPOLICIES: self._begin_admission,
        }

    def connect(self, resource: str, forward: LateHandler) -> None:
        """Pass the events of a resource's metadata to the quota controller, unless it reads more of it."""
        if resource not in WHOLE:
            forward.add(self._quotas.handler(resource), ())

    def begin(self, resource: Resource) -> None:
        """Start the controller of a resource, which has objects by now."""
        self._begins[resource]()

    def _begin_quotas(self) -> None:
        self._quotas.items = self._informers.get(RESOURCEQUOTAS, self._quotas).items
        self._context.spawn(self._quotas.run(), "quotas")

    def _begin_budgets(self) -> None:
        self._pods()
        self._budgets.items = self._informers.get(PODDISRUPTIONBUDGETS, self._budgets).items
        self._context.spawn(self._recorder.run(), "budget events")
        self._context.spawn(self._budgets.run(), "budgets")

    def _begin_admission(self) -> None:
        self._admission.items = self._informers.get(VALIDATINGADMISSIONPOLICIES, self._admission).items
        self._context.spawn(self._admission.run(), "admission policies")

    def _pods(self) -> Informer:
        return self._informers.get(PODS, self._budgets.pod_handler)

    def _source(self, resource: str) -> Informer | None:
        if (whole := WHOLE.get(resource)) is None:
            return self._metadata.get(resource)
        if resource not in self._whole:
            self._whole[resource] = self._quotas.handler(resource)
        return self._informers.get(whole, self._whole[resource])


Spawn = Callable[[Coroutine[Any, Any, None], str], Any]
POD_SPEC = ("activeDeadlineSeconds", "affinity", "overhead", "priorityClassName", "resources")
CONTAINER = ("name", "resources", "restartPolicy")
STATUS = ("name", "resources", "allocatedResources")


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
    conditions = [condition for condition in status.get("conditions") or () if condition.get("type") == "Ready"]
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
