"""Persistent volumes and storage drivers. This server neither provisions nor binds volumes."""

from actors.apiserver.api.causes import Cause, required
from actors.apiserver.api.objects import at, items, text
from actors.apiserver.api.resource import STATUS_VERBS, Column, Resource, Subresource
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.cells import AGE, NAME, cell
from protocols.kube.meta import Object

STORAGE = "storage.k8s.io"
MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
UNSET = "<unset>"


class VolumeStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        if obj["kind"] == "PersistentVolume":
            spec.setdefault("persistentVolumeReclaimPolicy", "Retain")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate_create(self, obj: Object) -> list[Cause]:
        return [] if at(obj, "spec", "accessModes") else [required("spec.accessModes")]


class DriverStrategy(Strategy):
    """Strategy of classes and drivers; requires the field `wanted`."""

    def __init__(self, wanted: str = "") -> None:
        self._wanted = wanted

    def validate_create(self, obj: Object) -> list[Cause]:
        return [required(self._wanted)] if self._wanted and obj.get(self._wanted) in (None, "") else []


class StorageClassStrategy(DriverStrategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


def modes(obj: Object) -> str:
    return ",".join(MODES.get(str(mode), str(mode)) for mode in at(obj, "spec", "accessModes") or ())


def claim(obj: Object) -> str:
    name = text(obj, "spec", "claimRef", "name")
    return f"{text(obj, 'spec', 'claimRef', 'namespace')}/{name}" if name else ""


CLASS = Column("StorageClass", cell("spec", "storageClassName"))
ATTRIBUTES = Column("VolumeAttributesClass", cell("spec", "volumeAttributesClassName", missing=UNSET))
MODE = Column("VolumeMode", cell("spec", "volumeMode"), 1)

VOLUMES = Resource(
    group="",
    version="v1",
    plural="persistentvolumes",
    singular="persistentvolume",
    kind="PersistentVolume",
    namespaced=False,
    strategy=VolumeStrategy(),
    short_names=("pv",),
    columns=(
        NAME,
        Column("Capacity", cell("spec", "capacity", "storage")),
        Column("Access Modes", modes),
        Column("Reclaim Policy", cell("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", cell("status", "phase")),
        Column("Claim", claim),
        CLASS,
        ATTRIBUTES,
        Column("Reason", cell("status", "reason")),
        AGE,
        MODE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "PersistentVolume", version="v1"),),
    returns_object=True,
)

CLAIMS = Resource(
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    kind="PersistentVolumeClaim",
    namespaced=True,
    strategy=VolumeStrategy(),
    short_names=("pvc",),
    columns=(
        NAME,
        Column("Status", cell("status", "phase")),
        Column("Volume", cell("spec", "volumeName")),
        Column("Capacity", cell("status", "capacity", "storage")),
        Column("Access Modes", modes),
        CLASS,
        ATTRIBUTES,
        AGE,
        MODE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "PersistentVolumeClaim", version="v1"),),
    returns_object=True,
)

CLASSES = Resource(
    group=STORAGE,
    version="v1",
    plural="storageclasses",
    singular="storageclass",
    kind="StorageClass",
    namespaced=False,
    strategy=StorageClassStrategy("provisioner"),
    short_names=("sc",),
    columns=(
        NAME,
        Column("Provisioner", cell("provisioner")),
        Column("ReclaimPolicy", cell("reclaimPolicy")),
        Column("VolumeBindingMode", cell("volumeBindingMode")),
        Column("AllowVolumeExpansion", lambda obj: bool(obj.get("allowVolumeExpansion"))),
        AGE,
    ),
    returns_object=True,
)

NODES = Resource(
    group=STORAGE,
    version="v1",
    plural="csinodes",
    singular="csinode",
    kind="CSINode",
    namespaced=False,
    strategy=DriverStrategy(),
    versioned_update=True,
    columns=(NAME, Column("Drivers", lambda obj: len(items(obj, "spec", "drivers")), type="integer"), AGE),
    returns_object=True,
)

DRIVERS = Resource(
    group=STORAGE,
    version="v1",
    plural="csidrivers",
    singular="csidriver",
    kind="CSIDriver",
    namespaced=False,
    strategy=DriverStrategy("spec"),
    versioned_update=True,
    columns=(
        NAME,
        Column("AttachRequired", lambda obj: at(obj, "spec", "attachRequired") is not False, type="boolean"),
        Column("PodInfoOnMount", lambda obj: bool(at(obj, "spec", "podInfoOnMount")), type="boolean"),
        Column("StorageCapacity", lambda obj: bool(at(obj, "spec", "storageCapacity")), type="boolean"),
        Column("Modes", lambda obj: ",".join(at(obj, "spec", "volumeLifecycleModes") or ("Persistent",))),
        AGE,
    ),
    returns_object=True,
)

ROWS = (VOLUMES, CLAIMS, CLASSES, NODES, DRIVERS)
