"""PersistentVolumes on nodes: attachments of volumes, and the capacities that CSI drivers report."""

from actors.apiserver.api.causes import Cause, invalid, required
from actors.apiserver.api.objects import at, text
from actors.apiserver.api.resource import STATUS_VERBS, Column, Resource, Subresource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell
from protocols.kube.meta import Object


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


CAPACITIES = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    singular="csistoragecapacity",
    versioned_update=True,
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
    versioned_update=True,
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

ROWS = (CAPACITIES, ATTACHMENTS)
