"""Persistent volumes and storage drivers. This server neither provisions nor binds volumes."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import asdict, replace

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause
from protocols.kinds.check.disks import default_disks
from protocols.kinds.check.table import Ordered, causes_of
from protocols.kinds.check.warnings import claim_warnings
from protocols.kinds.served.columns import AGE, NAME, cell, name
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.storage.claim_rules import (
    CLAIM_STATUS,
    claim_change_causes,
    drop_unknown_source,
    join_sources,
)
from protocols.kinds.storage.claim_spec import claim_spec
from protocols.kinds.storage.volume_rules import (
    CSI_DRIVER,
    CSI_NODE,
    KEPT_VOLUME,
    STORAGE_CLASS,
    VOLUME,
    node_drivers_change_causes,
    volume_change_causes,
)
from protocols.kinds.storage.volume_sources import sources
from protocols.kinds.storage.warnings import CLASS_ANNOTATION, annotation_warnings, volume_warnings
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.times import now

MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
UNSET = "<unset>"
DEFAULT_DOMAINS = ("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io")
SINCE = "lastPhaseTransitionTime"


def _default_phase(obj: Object) -> None:
    status = obj.get("status")
    if not isinstance(status, dict):
        status = obj["status"] = {}
    status["phase"] = status.get("phase") or "Pending"


class _VolumeStrategy(Strategy):
    has_status = True
    rules = VOLUME

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["volumeMode"] = spec.get("volumeMode") or "Filesystem"
        spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
        default_disks(spec)

    def default_status(self, obj: Object) -> None:
        _default_phase(obj)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", SINCE: now()}

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        status, since = new.get("status") or {}, at(old, "status", SINCE)
        if status.get("phase") != at(old, "status", "phase"):
            if status.get(SINCE) in (None, since):  # most clients send back what they read
                new["status"] = {**status, SINCE: now()}
        elif since and not status.get(SINCE):
            new["status"] = {**status, SINCE: since}

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        same = same_json(sources(new["spec"]), sources(old.get("spec") or {}))
        causes = causes_of(KEPT_VOLUME, "", new) if same else self.validate_create(new)
        return causes + volume_change_causes(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return volume_warnings(new)


class _ClaimStrategy(Strategy):
    has_status = True
    rules = Ordered(spec=claim_spec)
    status_rules = CLAIM_STATUS

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["volumeMode"] = spec.get("volumeMode") or "Filesystem"

    def default_status(self, obj: Object) -> None:
        _default_phase(obj)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        drop_unknown_source(obj["spec"])
        join_sources(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        if not (at(old, "spec", "dataSource") or at(old, "spec", "dataSourceRef")):
            drop_unknown_source(new["spec"])
        join_sources(new["spec"])

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + claim_change_causes(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return [*annotation_warnings(new, CLASS_ANNOTATION), *claim_warnings("spec", new["spec"])]


class _StorageClassStrategy(Strategy):
    rules = STORAGE_CLASS
    immutable = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


class _CSINodeStrategy(Strategy):
    rules = CSI_NODE

    def prepare_create(self, obj: Object) -> None:
        if not at(obj, "spec", "drivers"):
            obj["spec"] = {**(obj.get("spec") or {}), "drivers": None}

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) + node_drivers_change_causes(new, old)


class _CSIDriverStrategy(Strategy):
    rules = CSI_DRIVER
    immutable = ("spec.attachRequired", "spec.volumeLifecycleModes")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for field, value in DRIVER_DEFAULTS.items():
            spec.setdefault(field, value)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        unset = at(new, "spec", "serviceAccountTokenInSecrets") is None
        return [TOKENS_LOGGED] if old is None and unset and items(new, "spec", "tokenRequests") else []


TOKENS_LOGGED = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
DRIVER_DEFAULTS = {
    "attachRequired": True,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "podInfoOnMount": False,
    "requiresRepublish": False,
    "seLinuxMount": False,
    "storageCapacity": False,
}


def _modes(part: str, obj: Object) -> str:
    given = at(obj, part, "accessModes") or ()
    return ",".join(short for mode, short in MODES.items() if mode in given)


def _of_volume(shown: Callable[[Object], str]) -> Callable[[Object], str]:
    """Return a column function of a claim that is empty until the claim has a volume."""
    return lambda obj: shown(obj) if text(obj, "spec", "volumeName") else ""


def _phase(obj: Object) -> str:
    return "Terminating" if text(obj, "metadata", "deletionTimestamp") else text(obj, "status", "phase")


def class_of(obj: Object) -> str:
    """Return the storage class of a volume or claim, which an annotation of old names first; empty if there is none."""
    annotations = at(obj, "metadata", "annotations") or {}
    return annotations.get(CLASS_ANNOTATION) or text(obj, "spec", "storageClassName")


def is_default(obj: Object) -> bool:
    """Return True for the default storage class."""
    annotations = at(obj, "metadata", "annotations") or {}
    return any(annotations.get(f"{domain}/is-default-class") == "true" for domain in DEFAULT_DOMAINS)


def _class_name(obj: Object) -> str:
    return f"{name(obj)} (default)" if is_default(obj) else name(obj)


def _claim(obj: Object) -> str:
    name = text(obj, "spec", "claimRef", "name")
    return f"{text(obj, 'spec', 'claimRef', 'namespace')}/{name}" if name else ""


def _token_audiences(obj: Object) -> str:
    return ",".join(str(request.get("audience") or "") for request in items(obj, "spec", "tokenRequests")) or "<unset>"


CLASS, PHASE = Column("StorageClass", class_of), Column("Status", _phase)
ATTRIBUTES = Column("VolumeAttributesClass", cell("spec", "volumeAttributesClassName", missing=UNSET))
MODE = Column("VolumeMode", cell("spec", "volumeMode", missing=UNSET), 1)

VOLUMES = Served(
    **asdict(kinds.PERSISTENTVOLUMES),
    strategy=_VolumeStrategy(),
    columns=(
        NAME,
        Column("Capacity", cell("spec", "capacity", "storage")),
        Column("Access Modes", partial(_modes, "spec")),
        Column("Reclaim Policy", cell("spec", "persistentVolumeReclaimPolicy")),
        PHASE,
        Column("Claim", _claim),
        CLASS,
        ATTRIBUTES,
        Column("Reason", cell("status", "reason")),
        AGE,
        MODE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "PersistentVolume", version="v1"),),
    returns_object=True,
)

CLAIMS = Served(
    **asdict(kinds.PERSISTENTVOLUMECLAIMS),
    strategy=_ClaimStrategy(),
    columns=(
        NAME,
        PHASE,
        Column("Volume", cell("spec", "volumeName")),
        Column("Capacity", _of_volume(cell("status", "capacity", "storage", missing="0"))),
        Column("Access Modes", _of_volume(partial(_modes, "status"))),
        CLASS,
        ATTRIBUTES,
        AGE,
        MODE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "PersistentVolumeClaim", version="v1"),),
    returns_object=True,
)

CLASSES = Served(
    **asdict(kinds.STORAGECLASSES),
    strategy=_StorageClassStrategy(),
    columns=(
        replace(NAME, cell=_class_name),
        Column("Provisioner", cell("provisioner")),
        Column("ReclaimPolicy", cell("reclaimPolicy")),
        Column("VolumeBindingMode", cell("volumeBindingMode")),
        Column("AllowVolumeExpansion", lambda obj: bool(obj.get("allowVolumeExpansion"))),
        AGE,
    ),
    returns_object=True,
)

NODES = Served(
    **asdict(kinds.CSINODES),
    strategy=_CSINodeStrategy(),
    versioned_update=True,
    columns=(NAME, Column("Drivers", lambda obj: len(items(obj, "spec", "drivers")), type="integer"), AGE),
    returns_object=True,
)

DRIVERS = Served(
    **asdict(kinds.CSIDRIVERS),
    strategy=_CSIDriverStrategy(),
    versioned_update=True,
    columns=(
        NAME,
        Column("AttachRequired", lambda obj: at(obj, "spec", "attachRequired") is not False, type="boolean"),
        Column("PodInfoOnMount", lambda obj: bool(at(obj, "spec", "podInfoOnMount")), type="boolean"),
        Column("StorageCapacity", lambda obj: bool(at(obj, "spec", "storageCapacity")), type="boolean"),
        Column("TokenRequests", _token_audiences),
        Column("RequiresRepublish", lambda obj: bool(at(obj, "spec", "requiresRepublish")), type="boolean"),
        Column("Modes", lambda obj: ",".join(at(obj, "spec", "volumeLifecycleModes") or ("Persistent",))),
        AGE,
    ),
    returns_object=True,
)

ROWS = (VOLUMES, CLAIMS, CLASSES, NODES, DRIVERS)
