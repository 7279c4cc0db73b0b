"""PersistentVolumes on nodes: attachments of volumes, and the capacities that CSI drivers report."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import (
    Causes,
    Ordered,
    Struct,
    between,
    needed,
)
from protocols.kinds.check.values import MAX_INT32, node_name, subdomain
from protocols.kinds.served.columns import AGE, CREATED, NAME, cell
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import METADATA, Strategy
from protocols.kinds.storage.volume_rules import parameters, provisioner
from protocols.kube.meta import Object
from protocols.kube.objects import at, text

ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
NO_PARAMETERS = "must contain at least one key/value pair"


def _source(path: str, source: Object, causes: Causes) -> None:
    volume = "persistentVolumeName"
    if (source.get(volume) is None) == (source.get("inlineVolumeSpec") is None):
        causes.append(required(path, ONE_SOURCE))
    elif source.get(volume) is not None:
        causes += [] if source[volume] else [required(f"{path}.{volume}", f"must specify non empty {volume}")]
        node_name(f"{path}.{volume}", source[volume], causes)


class _CapacityStrategy(Strategy):
    rules = Ordered("storageClassName", storageClassName=node_name, nodeTopology=label_selector)
    immutable = ("storageClassName", "nodeTopology")


class _AttachmentStrategy(Strategy):
    has_status = True
    status_keeps = METADATA
    rules = Ordered(
        spec=Ordered("attacher source={} nodeName", attacher=needed(subdomain), source=_source, nodeName=node_name)
    )
    status_rules = Struct(status=Struct(attachError=Struct(errorCode=between(0, MAX_INT32))))
    immutable = ("spec",)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"attached": False}


class _AttributesStrategy(Strategy):
    rules = Ordered("driverName parameters", driverName=provisioner, parameters=needed(parameters, NO_PARAMETERS))

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
