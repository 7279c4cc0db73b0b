"""Sources of persistent volumes: as those of pods, with secrets of any namespace. Messages equal upstream's."""

import posixpath

from protocols.kinds.check.causes import forbidden, invalid, required
from protocols.kinds.check.disks import DISKS, FIRST, SECOND, default_disks, iscsi, lun
from protocols.kinds.check.table import Causes, Check, Struct, anything, needed, texts
from protocols.kinds.check.values import backstep_faults, driver_name, label, subdomain
from protocols.kinds.shapes.registry import API, registry
from protocols.kinds.shapes.shape import STRUCT
from protocols.kube.meta import Object

NO_NAMESPACE = "if the endpointnamespace is set, it must be a valid namespace name"
_secret = Struct("name namespace")
_checked_secret = Struct("name namespace", name=subdomain, namespace=label)


def _namespace(path: str, name: str, causes: Causes) -> None:
    label(path, name, causes)
    if not name:
        causes.append(invalid(path, name, NO_NAMESPACE))


def _csi(path: str, value: Object, causes: Causes) -> None:
    driver_name(f"{path}.driver", value.get("driver") or "", causes)
    _CSI(path, value, causes)


_CSI = Struct(
    "volumeHandle",
    controllerPublishSecretRef=_checked_secret,
    controllerExpandSecretRef=_checked_secret,
    nodePublishSecretRef=_checked_secret,
    nodeExpandSecretRef=_checked_secret,
)
_ISCSI = Struct("targetPortal iqn", also=iscsi, lun=lun)
FORMAT, LONG = "must be valid format", "must be valid format starting with iqn, eui, or naa"


def _iscsi(path: str, value: Object, causes: Causes) -> None:
    """Check the names of targets; upstream has one text about those of volumes."""
    start = len(causes)
    _ISCSI(path, value, causes)
    causes[start:] = [cause._replace(message=cause.message.replace(LONG, FORMAT)) for cause in causes[start:]]
    if (secret := value.get("secretRef")) is not None and not secret.get("name"):
        causes.append(required(f"{path}.secretRef.name"))


_OWN: dict[str, Check] = {
    "glusterfs": Struct("endpoints path", endpointsNamespace=_namespace),
    "iscsi": _iscsi,
    "cinder": Struct("volumeID", secretRef=_secret),
    "azureFile": Struct("secretName shareName", secretNamespace=needed(anything)),
    "local": Struct("path", path=texts(backstep_faults)),
    "storageos": Struct("volumeName", volumeName=label, volumeNamespace=label, secretRef=_secret),
    "csi": _csi,
}
ORDER = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
"""Sources in the order in which upstream looks for them: the first one is the volume's."""
SOURCES = {name: _OWN.get(name) or DISKS[name] for name in ORDER}
FLEXIBLE = "flexVolume"
"""Upstream checks this source even if it is not the first, which it may follow."""


def sources(spec: Object) -> Object:
    """Return the sources of a volume's data, by field, with the defaults that a stored one may lack."""
    fields = registry().structs[f"{API}core.v1.PersistentVolumeSpec"].fields
    kinds = {name for name, field in fields.items() if field.form == STRUCT} - {"claimRef", "nodeAffinity"}
    given = {name: dict(value) for name, value in spec.items() if name in kinds and value is not None}
    default_disks(given)
    return given


def one_source(path: str, spec: Object, causes: Causes) -> None:
    """Check that a volume has one source, and the source."""
    held = sources(spec)
    given = [name for name in ORDER if name in held]
    if not given:
        causes.append(required(path, "must specify a volume type"))
    for number, name in enumerate(given):
        if number and name != FLEXIBLE:
            where = f"{path}.{SECOND.get(name, name)}"
            causes.append(forbidden(where, "may not specify more than 1 volume type"))
            continue
        SOURCES[name](f"{path}.{FIRST.get(name, name)}", held[name], causes)
        if name == "local" and (spec.get("nodeAffinity") or {}).get("required") is None:
            causes.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    if _is_root(held.get("hostPath") or {}) and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        causes.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", text))


def _is_root(source: Object) -> bool:
    return not posixpath.normpath(source.get("path") or "").strip("/")
