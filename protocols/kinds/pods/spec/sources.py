"""Sources of volumes: a table of their fields. Messages equal upstream's."""

import re
from collections.abc import Callable
from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.check.metadata import template_metadata
from protocols.kinds.check.table import Causes, Check, Struct, between, each, one_of, texts
from protocols.kinds.check.values import (
    backstep_faults,
    descending_faults,
    label,
    mode,
    unreserved_faults,
)
from protocols.kinds.pods.spec.environment import IN_FILES, field_ref, resource_ref
from protocols.kinds.storage.claim_spec import claim_spec
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.quantity import parse_quantity

HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
DRIVER_MAX = 63
MINUTES = 600
LONGEST_TOKEN = 1 << 32

_unreserved = texts(unreserved_faults)
key_to_path = Struct("key path", path=_unreserved, mode=mode)
_files: dict[str, Check] = {"items": each(key_to_path), "defaultMode": mode}
_secret_ref = Struct("name")
_lun, _partition = between(0, 255), between(0, 255, "must be between 1 and 255, inclusive")


def _size(path: str, value: Any, causes: Causes) -> None:
    if parse_quantity(value).nanos < 0:
        causes.append(forbidden(path, "SizeLimit field must be a valid resource quantity"))


def _absolute(path: str, value: str, causes: Causes) -> None:
    if not value.startswith("/"):
        causes.append(invalid(path, value, "must be an absolute path"))


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


def _csi_driver(path: str, name: str, causes: Causes) -> None:
    if not name:
        causes.append(required(path))
        return
    if len(name) > DRIVER_MAX:
        causes.append(Cause(path, "FieldValueTooLong", f"Too long: may not be more than {DRIVER_MAX} bytes"))
    causes.extend(invalid(path, name, fault) for fault in subdomain_faults(name.lower()))


def _csi(path: str, value: Object, causes: Causes) -> None:
    _csi_driver(f"{path}.driver", value.get("driver") or "", causes)
    if (secret := value.get("nodePublishSecretRef")) is None:
        return
    name = secret.get("name") or ""
    if not name:
        causes.append(required(f"{path}.nodePublishSecretRef.name"))
    else:
        causes.extend(invalid(f"{path}.name", name, fault) for fault in subdomain_faults(name))


def _fibre_channel(path: str, value: Object, causes: Causes) -> None:
    targets, ids = value.get("targetWWNs"), value.get("wwids")
    if not targets and not ids:
        causes.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    elif targets and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        causes.append(invalid(f"{path}.targetWWNs", targets, text))
    if targets and value.get("lun") is None:
        causes.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets:
        _lun(f"{path}.lun", value["lun"], causes)


def _flocker(path: str, value: Object, causes: Causes) -> None:
    name, uid = value.get("datasetName") or "", value.get("datasetUUID") or ""
    if not name and not uid:
        causes.append(required(path, "one of datasetName and datasetUUID is required"))
    elif name and uid:
        causes.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        causes.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[-.a-zA-Z0-9]+:[^,;*&$|\s]+", re.ASCII),
    "eui": re.compile(r"eui.[a-zA-Z0-9]{16}"),
    "naa": re.compile(r"naa.[a-zA-Z0-9]{32}"),
}


def _initiator(path: str, name: str, causes: Causes) -> None:
    form = INITIATORS.get(name[:3])
    if form is None:
        causes.append(invalid(path, name, "must be valid format starting with iqn, eui, or naa"))
    elif not form.fullmatch(name):
        causes.append(invalid(path, name, "must be valid format"))


def _iscsi(path: str, value: Object, causes: Causes) -> None:
    if iqn := value.get("iqn"):
        _initiator(f"{path}.iqn", iqn, causes)
    if (value.get("chapAuthDiscovery") or value.get("chapAuthSession")) and value.get("secretRef") is None:
        causes.append(required(f"{path}.secretRef"))
    if (name := value.get("initiatorName")) is not None:
        _initiator(f"{path}.initiatorname", name, causes)


TENANT_MAX = 64
PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_PAIR = re.compile(r"([^:[\]]*|\[[^[\]]*\]):[^:[\]]*")


def _quobyte(path: str, value: Object, causes: Causes) -> None:
    """Check the registry; several wrong pairs are reported once, since each report shows all pairs."""
    registry: str = value.get("registry") or ""
    if not registry:
        causes.append(required(f"{path}.registry", PAIRS))
    elif len((value.get("tenant") or "").encode()) > TENANT_MAX:
        text = f"must be a UUID and may not exceed a length of {TENANT_MAX} characters"
        causes.append(required(f"{path}.tenant", text))
    elif not all(map(_PAIR.fullmatch, registry.split(","))):
        causes.append(invalid(f"{path}.registry", registry, PAIRS))


RESERVED = (".kubernetes.io", ".k8s.io")


def _flex_options(path: str, options: Object, causes: Causes) -> None:
    for key in options:
        if f".{key.partition('/')[0]}".lower().endswith(RESERVED):
            causes.append(invalid(f"{path}[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))


MANAGED = "/subscriptions/", "{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
BLOB = "https://", "{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def _azure_disk(path: str, value: Object, causes: Causes) -> None:
    """Check that the URI is one of the disk's kind, which has a default."""
    begin, rest = MANAGED if value.get("kind") == "Managed" else BLOB
    if not (uri := value.get("diskURI") or "").startswith(begin):
        causes.append(unsupported(f"{path}.diskURI", uri, (begin + rest,)))


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
    """Check a projection: its files must have different paths."""
    taken: list[str] = []
    for index, source in enumerate(value.get("sources") or ()):
        where, given = f"{path}.sources[{index}]", [kind for kind in PROJECTIONS if source.get(kind) is not None]
        for kind in given:
            taken += PROJECTIONS[kind](f"{where}.{kind}", source[kind], causes, path)
        if len(given) > 1:
            causes.append(forbidden(where, "may not specify more than 1 volume type per source"))
    seen = set()
    for file in filter(None, taken):
        if file in seen:
            causes.append(invalid(path, file, "conflicting duplicate paths"))
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
    "hostPath": Struct("path", path=texts(backstep_faults), type=one_of(*HOST_TYPES)),
    "gitRepo": Struct("repository", directory=texts(descending_faults)),
    "gcePersistentDisk": Struct("pdName", partition=_partition),
    "awsElasticBlockStore": Struct("volumeID", partition=_partition),
    "secret": Struct("secretName", fields=_files),
    "nfs": Struct("server path", path=_absolute),
    "iscsi": Struct("targetPortal iqn", also=_iscsi, lun=_lun),
    "glusterfs": Struct("endpoints path"),
    "flocker": _flocker,
    "persistentVolumeClaim": Struct("claimName"),
    "rbd": Struct("monitors image"),
    "cinder": Struct("volumeID", secretRef=_secret_ref),
    "cephfs": Struct("monitors"),
    "quobyte": Struct("volume", also=_quobyte),
    "downwardAPI": _downward,
    "fc": _fibre_channel,
    "flexVolume": Struct("driver", options=_flex_options),
    "configMap": Struct("name", fields=_files),
    "azureFile": Struct("secretName shareName"),
    "vsphereVolume": Struct("volumePath"),
    "photonPersistentDisk": Struct("pdID"),
    "portworxVolume": Struct("volumeID"),
    "azureDisk": Struct(
        "diskName diskURI",
        also=_azure_disk,
        cachingMode=one_of("None", "ReadOnly", "ReadWrite", empty=True),
        kind=one_of("Dedicated", "Managed", "Shared", empty=True),
    ),
    "storageos": Struct("volumeName", volumeName=label, volumeNamespace=label, secretRef=_secret_ref),
    "projected": projected,
    "scaleIO": Struct("gateway system volumeName"),
    "csi": _csi,
    "ephemeral": _claim_template,
    "image": Struct(pullPolicy=one_of("Always", "IfNotPresent", "Never")),
}
"""Sources in the order in which upstream looks for them: of two, it reports the later one."""
FIRST, SECOND = {"gcePersistentDisk": "persistentDisk"}, {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that upstream calls by other names when they are the first or the second of a volume."""


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
