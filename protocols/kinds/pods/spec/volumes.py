"""Volumes of a pod. Messages equal upstream's."""

from protocols.kinds.check.causes import duplicate, invalid, required
from protocols.kinds.check.table import Causes
from protocols.kinds.pods.spec.sources import SOURCES, source_causes
from protocols.kube.meta import Object
from protocols.kube.names import label_faults, subdomain_faults


def volume_causes(path: str, volumes: list[Object], pod_name: str) -> tuple[Causes, dict[str, Object]]:
    """Return the faults of all volumes, and the valid ones by name."""
    causes: Causes = []
    valid: dict[str, Object] = {}
    seen = set()
    created = {f"{pod_name}-{volume.get('name')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name") or ""
        faults = _volume(where, volume, name, pod_name)
        if name in seen:
            faults.append(duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        if faults:
            causes += faults
        else:
            valid[name] = volume
        if (claim := (volume.get("persistentVolumeClaim") or {}).get("claimName")) in created:
            causes.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, NOT_CREATED))
    return causes, valid


NOT_CREATED = "must not reference a PVC that gets created for an ephemeral volume"
PORTAL_MAX = 64
PORTAL_LONG = (
    f"Total length of <volume name>:<iscsi.targetPortal> must be under {PORTAL_MAX} characters if "
    "iscsi.initiatorName is specified."
)


def _volume(path: str, volume: Object, name: str, pod_name: str) -> Causes:
    given = [kind for kind, source in volume.items() if kind in SOURCES and source is not None]
    causes = source_causes(path, volume, given) if given else [required(path, "must specify a volume type")]
    if not name:
        causes.append(required(f"{path}.name"))
    causes += [invalid(f"{path}.name", name, fault) for fault in label_faults(name)] if name else []
    if "ephemeral" in given and pod_name and name:
        claim = f"{pod_name}-{name}"
        causes += [invalid(f"{path}.name", name, f'PVC name "{claim}": {fault}') for fault in subdomain_faults(claim)]
    iscsi = volume.get("iscsi") or {}
    if "initiatorName" in iscsi and len(f"{name}:{iscsi.get('targetPortal') or ''}".encode()) > PORTAL_MAX:
        causes.append(invalid(f"{path}.name", name, PORTAL_LONG))
    return causes
