"""Kinds that kube-scheduler follows besides ours: workloads, disruption budgets, storage capacities and attachments.

This server runs no controller for them; kube-controller-manager may.
"""

from actors.apiserver.api.causes import Cause, invalid, required
from actors.apiserver.api.objects import at, text
from actors.apiserver.api.resource import STATUS_VERBS, Column, Resource, Subresource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object
from protocols.kube.selectors import label_selector_from_object

MISMATCH = "`selector` does not match template `labels`"
NEGATIVE = "must be greater than or equal to 0"


class WorkloadStrategy(Strategy):
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("replicas", 1)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate_create(self, obj: Object) -> list[Cause]:
        replicas = at(obj, "spec", "replicas")
        causes = [invalid("spec.replicas", replicas, NEGATIVE)] if isinstance(replicas, int) and replicas < 0 else []
        return [*causes, *self.selector_causes(obj)]

    def selector_causes(self, obj: Object) -> list[Cause]:
        selector = at(obj, "spec", "selector")
        if not selector:
            return [required("spec.selector")]
        return _match_causes(obj, selector)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        if at(new, "spec", "selector") != at(old, "spec", "selector"):
            causes.append(invalid("spec.selector", at(new, "spec", "selector"), "field is immutable"))
        return causes


class StatefulSetStrategy(WorkloadStrategy):
    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("podManagementPolicy", "OrderedReady")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})


class ReplicationStrategy(WorkloadStrategy):
    def default(self, obj: Object) -> None:
        super().default(obj)
        labels = at(obj, "spec", "template", "metadata", "labels")
        if labels and not obj["spec"].get("selector"):
            obj["spec"]["selector"] = dict(labels)

    def selector_causes(self, obj: Object) -> list[Cause]:
        selector = at(obj, "spec", "selector")
        return _match_causes(obj, {"matchLabels": selector}) if selector else [required("spec.selector")]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new)


def _match_causes(obj: Object, selector: Object) -> list[Cause]:
    labels = at(obj, "spec", "template", "metadata", "labels") or {}
    try:
        matches = label_selector_from_object(selector).matches(labels)
    except (SelectorInvalid, TypeError, ValueError, AttributeError) as error:
        return [invalid("spec.selector", selector, str(error))]
    return [] if matches else [invalid("spec.template.metadata.labels", labels, MISMATCH)]


class BudgetStrategy(Strategy):
    has_status = True
    has_generation = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            return [invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
        return []


class CapacityStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        return [] if obj.get("storageClassName") else [required("storageClassName")]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        changed = [name for name in ("storageClassName", "nodeTopology") if new.get(name) != old.get(name)]
        return [*self.validate_create(new), *(invalid(name, new.get(name), "field is immutable") for name in changed)]


class AttachmentStrategy(Strategy):
    has_status = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"attached": False}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, path = obj.get("spec") or {}, "spec"
        causes = [required(f"{path}.{name}") for name in ("attacher", "nodeName") if not spec.get(name)]
        return causes if spec.get("source") else [*causes, required(f"{path}.source")]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        same = new.get("spec") == old.get("spec")
        return [] if same else [invalid("spec", new.get("spec"), "field is immutable")]


def count(*path: str) -> Column:
    title = {"replicas": "Current" if path[0] == "status" else "Desired", "readyReplicas": "Ready"}[path[-1]]
    return Column(title, lambda obj: at(obj, *path) or 0, type="integer")


def ready(obj: Object) -> str:
    return f"{at(obj, 'status', 'readyReplicas') or 0}/{at(obj, 'spec', 'replicas') or 0}"


def limit(name: str) -> Column:
    shown = "Min Available" if name == "minAvailable" else "Max Unavailable"
    return Column(shown, lambda obj: "N/A" if at(obj, "spec", name) is None else str(at(obj, "spec", name)))


COUNTS = (count("spec", "replicas"), count("status", "replicas"), count("status", "readyReplicas"))

CONTROLLERS = Resource(
    group="",
    version="v1",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    kind="ReplicationController",
    namespaced=True,
    strategy=ReplicationStrategy(),
    prefix="controllers",
    short_names=("rc",),
    categories=("all",),
    columns=(NAME, *COUNTS, AGE),
    subresources=(Subresource("status", STATUS_VERBS, "ReplicationController", version="v1"),),
)

REPLICASETS = Resource(
    group="apps",
    version="v1",
    plural="replicasets",
    singular="replicaset",
    kind="ReplicaSet",
    namespaced=True,
    strategy=WorkloadStrategy(),
    short_names=("rs",),
    categories=("all",),
    columns=(NAME, *COUNTS, AGE),
    subresources=(Subresource("status", STATUS_VERBS, "ReplicaSet", "apps", "v1"),),
)

STATEFULSETS = Resource(
    group="apps",
    version="v1",
    plural="statefulsets",
    singular="statefulset",
    kind="StatefulSet",
    namespaced=True,
    strategy=StatefulSetStrategy(),
    short_names=("sts",),
    categories=("all",),
    columns=(NAME, Column("Ready", ready), AGE),
    subresources=(Subresource("status", STATUS_VERBS, "StatefulSet", "apps", "v1"),),
)

BUDGETS = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    kind="PodDisruptionBudget",
    namespaced=True,
    strategy=BudgetStrategy(),
    short_names=("pdb",),
    columns=(
        NAME,
        limit("minAvailable"),
        limit("maxUnavailable"),
        Column("Allowed Disruptions", lambda obj: at(obj, "status", "disruptionsAllowed") or 0, type="integer"),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "PodDisruptionBudget", "policy", "v1"),),
)

CAPACITIES = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    singular="csistoragecapacity",
    kind="CSIStorageCapacity",
    namespaced=True,
    strategy=CapacityStrategy(),
    columns=(NAME, Column("StorageClass", cell("storageClassName")), Column("Capacity", cell("capacity")), AGE),
)

ATTACHMENTS = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattachments",
    singular="volumeattachment",
    kind="VolumeAttachment",
    namespaced=False,
    strategy=AttachmentStrategy(),
    columns=(
        NAME,
        Column("Attacher", cell("spec", "attacher")),
        Column("PV", lambda obj: text(obj, "spec", "source", "persistentVolumeName")),
        Column("Node", cell("spec", "nodeName")),
        Column("Attached", lambda obj: bool(at(obj, "status", "attached")), type="boolean"),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "VolumeAttachment", "storage.k8s.io", "v1"),),
    returns_object=True,
)

ROWS = (CONTROLLERS, REPLICASETS, STATEFULSETS, BUDGETS, CAPACITIES, ATTACHMENTS)
