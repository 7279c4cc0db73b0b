"""Sources of data that volumes of pods and persistent volumes share: checks and defaults. Messages equal upstream's."""

import re

from protocols.kinds.check.causes import invalid, required, unsupported
from protocols.kinds.check.table import Causes, Check, Struct, between, one_of, texts
from protocols.kinds.check.values import backstep_faults
from protocols.kube.meta import Object

HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
lun, _partition = between(0, 255), between(0, 255, "must be between 1 and 255, inclusive")


def _absolute(path: str, value: str, causes: Causes) -> None:
    if not value.startswith("/"):
        causes.append(invalid(path, value, "must be an absolute path"))


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
        lun(f"{path}.lun", value["lun"], causes)


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


def iscsi(path: str, value: Object, causes: Causes) -> None:
    """Check the names of a target and of its initiator, and that authentication has a secret."""
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


DISKS: dict[str, Check] = {
    "hostPath": Struct("path", path=texts(backstep_faults), type=one_of(*HOST_TYPES)),
    "gcePersistentDisk": Struct("pdName", partition=_partition),
    "awsElasticBlockStore": Struct("volumeID", partition=_partition),
    "nfs": Struct("server path", path=_absolute),
    "flocker": _flocker,
    "rbd": Struct("monitors image"),
    "cephfs": Struct("monitors"),
    "quobyte": Struct("volume", also=_quobyte),
    "fc": _fibre_channel,
    "flexVolume": Struct("driver", options=_flex_options),
    "vsphereVolume": Struct("volumePath"),
    "photonPersistentDisk": Struct("pdID"),
    "portworxVolume": Struct("volumeID"),
    "azureDisk": Struct(
        "diskName diskURI",
        also=_azure_disk,
        cachingMode=one_of("None", "ReadOnly", "ReadWrite", empty=True),
        kind=one_of("Dedicated", "Managed", "Shared", empty=True),
    ),
    "scaleIO": Struct("gateway system volumeName"),
}
FIRST, SECOND = {"gcePersistentDisk": "persistentDisk"}, {"cephfs": "cephFS"}
"""Sources that upstream calls by other names when they are the first or the second of a volume."""
DEFAULTS: dict[str, Object] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_disks(holder: Object) -> None:
    """Set the defaults of the sources of a volume."""
    for kind, defaults in DEFAULTS.items():
        if isinstance(source := holder.get(kind), dict):
            for field, value in defaults.items():
                source.setdefault(field, value)
