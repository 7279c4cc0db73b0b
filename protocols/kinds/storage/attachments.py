"""PersistentVolumes on nodes: attachments of volumes, and the capacities that CSI drivers report."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import (
    Causes,
    Ordered,
    Struct,
    anything,
    between,
    causes_of,
    changed_causes,
    needed,
)
from protocols.kinds.check.values import MAX_INT32, node_name, subdomain
from protocols.kinds.served.columns import AGE, CREATED, NAME, cell
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, text

ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
NO_PARAMETERS = "must contain at least one key/value pair"


def _source(path: str, source: Object, causes: Causes) -> None:
    source, volume = source or {}, "persistentVolumeName"
    if (source.get(volume) is None) == (source.get("inlineVolumeSpec") is None):
        causes.append(required(path, ONE_SOURCE))
    elif source.get(volume) is not None:
        causes += [] if source[volume] else [required(f"{path}.{volume}", f"must specify non empty {volume}")]
        node_name(f"{path}.{volume}", source[volume], causes)


STATUS = Struct(attachError=Struct(errorCode=between(0, MAX_INT32)))
ATTACHMENT = Ordered("attacher source nodeName", attacher=needed(subdomain), source=_source, nodeName=node_name)
CAPACITY = Ordered("storageClassName", storageClassName=node_name, nodeTopology=label_selector)
ATTRIBUTES_CLASS = Ordered(
    "driverName parameters", driverName=needed(subdomain), parameters=needed(anything, NO_PARAMETERS)
)


class _CapacityStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        return causes_of(CAPACITY, "", obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + changed_causes(new, old, "storageClassName", "nodeTopology")


class _AttachmentStrategy(Strategy):
    has_status = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"attached": False}

    def validate_create(self, obj: Object) -> list[Cause]:
        return causes_of(ATTACHMENT, "spec", obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        changed = changed_causes(new, old, "spec")
        return self.validate_create(new) + changed if changed else []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return causes_of(STATUS, "status", new.get("status") or {})


class _AttributesStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        return causes_of(ATTRIBUTES_CLASS, "", obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        changed = [name for name in ("driverName", "parameters") if new.get(name) != old.get(name)]
        return [forbidden(name, f"updates to {name} are forbidden.") for name in changed]


CAPACITIES = Served(
    **asdict(kinds.CSISTORAGECAPACITIES),
    versioned_update=True,
    strategy=_CapacityStrategy(),
    columns=(NAME, CREATED),
)

ATTACHMENTS = Served(
    **asdict(kinds.VOLUMEATTACHMENTS),
    versioned_update=True,
    strategy=_AttachmentStrategy(),
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
    strategy=_AttributesStrategy(),
    columns=(NAME, Column("DriverName", cell("driverName")), AGE),
    returns_object=True,
)

ROWS = (CAPACITIES, ATTACHMENTS, ATTRIBUTES)
