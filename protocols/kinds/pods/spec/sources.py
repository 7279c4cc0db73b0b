"""Sources of volumes: a table of their fields. Messages equal upstream's."""

from collections.abc import Callable
from typing import Any

from protocols.kinds.check import disks
from protocols.kinds.check.causes import forbidden, invalid, required
from protocols.kinds.check.disks import DISKS, FIRST, iscsi, lun
from protocols.kinds.check.metadata import template_metadata
from protocols.kinds.check.table import Causes, Check, Struct, each, one_of, texts
from protocols.kinds.check.values import (
    descending_faults,
    driver_name,
    label,
    mode,
    unreserved_faults,
)
from protocols.kinds.pods.spec.environment import IN_FILES, field_ref, resource_ref
from protocols.kinds.storage.claim_spec import claim_spec
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.quantity import parse_quantity

MINUTES = 600
LONGEST_TOKEN = 1 << 32

_unreserved = texts(unreserved_faults)
key_to_path = Struct("key path", path=_unreserved, mode=mode)
_secret_ref = Struct("name")
_files: dict[str, Check] = {"items": each(key_to_path), "defaultMode": mode}


def _size(path: str, value: Any, causes: Causes) -> None:
    if parse_quantity(value).nanos < 0:
        causes.append(forbidden(path, "SizeLimit field must be a valid resource quantity"))


_field = field_ref(IN_FILES)


def _file(path: str, value: Object, causes: Causes) -> None:
    """Check a file of the downward API. Upstream's paths lack its index."""
    FILE(path, value, causes)
    field, resource = value.get("fieldRef"), value.get("resourceFieldRef")
    if field is not None:
        _field(f"{path}.fieldRef", field, causes)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(path, "resource", text))
    elif resource is not None:
        if not resource.get("containerName"):
            causes.append(required(f"{path}.resourceFieldRef.containerName"))
        else:
            resource_ref(f"{path}.resourceFieldRef", resource, causes)
    else:
        causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))


FILE = Struct("path", path=_unreserved, mode=mode)


def _downward(path: str, value: Object, causes: Causes) -> None:
    for item in value.get("items") or ():
        _file(path, item, causes)
    if (default := value.get("defaultMode")) is not None:
        mode(f"{path}.defaultMode", default, causes)


def _csi(path: str, value: Object, causes: Causes) -> None:
    driver_name(f"{path}.driver", value.get("driver") or "", causes)
    if (secret := value.get("nodePublishSecretRef")) is None:
        return
    name = secret.get("name") or ""
    if not name:
        causes.append(required(f"{path}.nodePublishSecretRef.name"))
    else:
        causes.extend(invalid(f"{path}.name", name, fault) for fault in subdomain_faults(name))


def _claim_template(path: str, value: Object, causes: Causes) -> None:
    path, template = f"{path}.volumeClaimTemplate", value.get("volumeClaimTemplate")
    if template is None:
        causes.append(required(path))
        return
    template_metadata(f"{path}.metadata", template.get("metadata") or {}, causes)
    claim_spec(f"{path}.spec", template.get("spec") or {}, causes)


def _token(path: str, value: Object, causes: Causes, owner: str) -> list[str]:
    """Check a token. Upstream reports a missing path at the projection, and does not compare it with others."""
    seconds = value.get("expirationSeconds")
    if seconds is not None and seconds < MINUTES:
        text = "may not specify a duration less than 10 minutes"
        causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
    elif seconds is not None and seconds > LONGEST_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
    if not value.get("path"):
        causes.append(required(f"{owner}.path"))
    else:
        _unreserved(f"{owner}.path", value["path"], causes)
    return []


_items = each(key_to_path)


def projected(path: str, value: Object, causes: Causes) -> None:
    """Check a projection: its files must have different paths. Upstream shows the secret or map of a second one."""
    taken: list[tuple[str, str]] = []
    for index, source in enumerate(value.get("sources") or ()):
        where, given = f"{path}.sources[{index}]", [kind for kind in PROJECTIONS if source.get(kind) is not None]
        for kind in given:
            files = PROJECTIONS[kind](f"{where}.{kind}", source[kind], causes, path)
            taken += [(file, file if kind == "downwardAPI" else source[kind].get("name") or "") for file in files]
        if len(given) > 1:
            causes.append(forbidden(where, "may not specify more than 1 volume type per source"))
    seen = set()
    for file, shown in taken:
        if file and file in seen:
            causes.append(invalid(path, shown, "conflicting duplicate paths"))
        seen.add(file)
    if (default := value.get("defaultMode")) is not None:
        mode(f"{path}.defaultMode", default, causes)


Projection = Callable[[str, Object, Causes, str], list[str]]
"""Check a source and return the paths of its files. The last argument is the path of the projection."""


def _keys(path: str, value: Object, causes: Causes, owner: str) -> list[str]:
    if not value.get("name"):
        causes.append(required(f"{path}.name"))
    items = value.get("items") or []
    _items(f"{path}.items", items, causes)
    return [item.get("path") or "" for item in items]


def _fields(path: str, value: Object, causes: Causes, owner: str) -> list[str]:
    _downward(path, value, causes)
    return [item.get("path") or "" for item in value.get("items") or ()]


PROJECTIONS: dict[str, Projection] = {
    "secret": _keys,
    "configMap": _keys,
    "downwardAPI": _fields,
    "serviceAccountToken": _token,
}

SOURCES: dict[str, Check] = {
    "emptyDir": Struct(sizeLimit=_size),
    "hostPath": DISKS["hostPath"],
    "gitRepo": Struct("repository", directory=texts(descending_faults)),
    "gcePersistentDisk": DISKS["gcePersistentDisk"],
    "awsElasticBlockStore": DISKS["awsElasticBlockStore"],
    "secret": Struct("secretName", fields=_files),
    "nfs": DISKS["nfs"],
    "iscsi": Struct("targetPortal iqn", also=iscsi, lun=lun),
    "glusterfs": Struct("endpoints path"),
    "flocker": DISKS["flocker"],
    "persistentVolumeClaim": Struct("claimName"),
    "rbd": DISKS["rbd"],
    "cinder": Struct("volumeID", secretRef=_secret_ref),
    "cephfs": DISKS["cephfs"],
    "quobyte": DISKS["quobyte"],
    "downwardAPI": _downward,
    "fc": DISKS["fc"],
    "flexVolume": DISKS["flexVolume"],
    "configMap": Struct("name", fields=_files),
    "azureFile": Struct("secretName shareName"),
    "vsphereVolume": DISKS["vsphereVolume"],
    "photonPersistentDisk": DISKS["photonPersistentDisk"],
    "portworxVolume": DISKS["portworxVolume"],
    "azureDisk": DISKS["azureDisk"],
    "storageos": Struct("volumeName", volumeName=label, volumeNamespace=label, secretRef=_secret_ref),
    "projected": projected,
    "scaleIO": DISKS["scaleIO"],
    "csi": _csi,
    "ephemeral": _claim_template,
    "image": Struct(pullPolicy=one_of("Always", "IfNotPresent", "Never")),
}
"""Sources in the order in which upstream looks for them: of two, it reports the later one."""
SECOND = {**disks.SECOND, "downwardAPI": "downwarAPI"}


def source_causes(path: str, volume: Object, given: list[str]) -> Causes:
    """Check the sources `given` of a volume: the first in upstream's order counts, others are forbidden."""
    causes: Causes = []
    for number, kind in enumerate(sorted(given, key=ORDER.__getitem__)):
        if number:
            text = "may not specify more than 1 volume type"
            causes.append(forbidden(f"{path}.{SECOND.get(kind, kind)}", text))
        else:
            SOURCES[kind](f"{path}.{FIRST.get(kind, kind)}", volume[kind], causes)
    return causes


ORDER = {kind: place for place, kind in enumerate(SOURCES)}
