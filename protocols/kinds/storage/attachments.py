"""PersistentVolumes on nodes: attachments of volumes, and the capacities that CSI drivers report."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Struct, between, causes_of
from protocols.kinds.check.values import MAX_INT32
from protocols.kinds.served.columns import AGE, CREATED, NAME, cell
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.objects import at, text

ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"

STATUS = Struct(attachError=Struct(errorCode=between(0, MAX_INT32)))


class CapacityStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        name = obj.get("storageClassName") or ""
        causes = [invalid("storageClassName", name, fault) for fault in subdomain_faults(name)]
        return causes + causes_of(label_selector, "nodeTopology", obj.get("nodeTopology") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        changed = [name for name in ("storageClassName", "nodeTopology") if new.get(name) != old.get(name)]
        return [*self.validate_create(new), *(invalid(name, new.get(name), "field is immutable") for name in changed)]


class AttachmentStrategy(Strategy):
    has_status = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"attached": False}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, source = obj.get("spec") or {}, at(obj, "spec", "source") or {}
        attacher, node, volume = spec.get("attacher") or "", spec.get("nodeName") or "", "persistentVolumeName"
        causes = [] if attacher else [required("spec.attacher")]
        causes += [invalid("spec.attacher", attacher, fault) for fault in subdomain_faults(attacher) if attacher]
        if (source.get(volume) is None) == (source.get("inlineVolumeSpec") is None):
            causes.append(required("spec.source", ONE_SOURCE))
        elif source.get(volume) is not None:
            path, name = f"spec.source.{volume}", source[volume]
            causes += [] if name else [required(path, f"must specify non empty {volume}")]
            causes += [invalid(path, name, fault) for fault in subdomain_faults(name)]
        return causes + [invalid("spec.nodeName", node, fault) for fault in subdomain_faults(node)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if new.get("spec") == old.get("spec"):
            return []
        return [*self.validate_create(new), invalid("spec", new.get("spec"), "field is immutable")]

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return causes_of(STATUS, "status", new.get("status") or {})


class AttributesStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        driver = obj.get("driverName") or ""
        causes = [invalid("driverName", driver, fault) for fault in subdomain_faults(driver)] if driver else []
        causes = causes if driver else [required("driverName")]
        if not obj.get("parameters"):
            causes.append(required("parameters", "must contain at least one key/value pair"))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        changed = [name for name in ("driverName", "parameters") if new.get(name) != old.get(name)]
        return [forbidden(name, f"updates to {name} are forbidden.") for name in changed]


CAPACITIES = Served(
    **asdict(kinds.CSISTORAGECAPACITIES),
    versioned_update=True,
    strategy=CapacityStrategy(),
    columns=(NAME, CREATED),
)

ATTACHMENTS = Served(
    **asdict(kinds.VOLUMEATTACHMENTS),
    versioned_update=True,
    strategy=AttachmentStrategy(),
    columns=(
        NAME,
        Column("Attacher", cell("spec", "attacher"), format="name"),
        Column("PV", lambda obj: text(obj, "spec", "source", "persistentVolumeName")),
        Column("Node", cell("spec", "nodeName")),
        Column("Attached", lambda obj: bool(at(obj, "status", "attached")), type="boolean"),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "VolumeAttachment", "storage.k8s.io", "v1"),),
    returns_object=True,
)

ATTRIBUTES = Served(
    **asdict(kinds.VOLUMEATTRIBUTESCLASSES),
    strategy=AttributesStrategy(),
    columns=(NAME, Column("DriverName", cell("driverName")), AGE),
    returns_object=True,
)

ROWS = (CAPACITIES, ATTACHMENTS, ATTRIBUTES)
