"""Specs of persistent volume claims. Messages equal upstream's."""

from protocols.kinds.check.causes import forbidden, invalid, required, unsupported
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, Struct, one_of
from protocols.kinds.check.values import subdomain
from protocols.kube.meta import Object
from protocols.kube.quantity import parse_quantity

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _modes(path: str, value: Object, causes: Causes) -> None:
    modes = value.get("accessModes") or []
    if not modes:
        causes.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    for mode in modes:
        if mode not in MODES:
            causes.append(unsupported(f"{path}.accessModes", mode, MODES))
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden(f"{path}.accessModes", text))
    _storage(f"{path}.resources[storage]", (value.get("resources") or {}).get("requests") or {}, causes)
    if value.get("dataSource") and value.get("dataSourceRef") and value["dataSource"] != value["dataSourceRef"]:
        causes.append(invalid(path, "", "must match dataSourceRef"))


def _storage(path: str, requests: Object, causes: Causes) -> None:
    if "storage" not in requests:
        causes.append(required(path))
    elif parse_quantity(requests["storage"]).nanos <= 0:
        causes.append(invalid(path, str(requests["storage"]), "must be greater than zero"))


def _data_source(path: str, value: Object, causes: Causes) -> None:
    group, kind = value.get("apiGroup") or "", value.get("kind") or ""
    if not group and kind != "PersistentVolumeClaim":
        causes.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))


_SOURCE = Struct("name kind", also=_data_source)
claim_spec = Struct(
    also=_modes,
    selector=label_selector,
    storageClassName=subdomain,
    volumeAttributesClassName=subdomain,
    volumeMode=one_of("Block", "Filesystem", empty=True),
    dataSource=_SOURCE,
    dataSourceRef=_SOURCE,
)
