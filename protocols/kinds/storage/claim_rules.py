"""Validation and normalization of persistent volume claims. Paths and reasons are upstream's."""

from functools import partial
from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid, unsupported
from protocols.kinds.check.table import Causes, Ordered, changed_causes
from protocols.kinds.storage.warnings import CLASS_ANNOTATION
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import at
from protocols.kube.quantity import Quantity, parse_quantity
from protocols.kube.resource_names import is_native

FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
ATTRIBUTES, CURRENT, CLASS = "volumeAttributesClassName", "currentVolumeAttributesClassName", "storageClassName"
SNAPSHOT = ("VolumeSnapshot", "snapshot.storage.k8s.io")
CLAIM = ("PersistentVolumeClaim", "")
RESIZES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
INT64 = 2**63


def drop_unknown_source(spec: Object) -> None:
    """Drop a data source of a kind that `dataSource` does not know, for clients from before `dataSourceRef`."""
    if spec.get("dataSourceRef") is None and _kind(spec.get("dataSource")) not in (CLAIM, SNAPSHOT):
        spec.pop("dataSource", None)


def join_sources(spec: Object) -> None:
    """Copy a data source to its newer field, and back where the older one knows its kind."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif source is None and _kind(reference) in (CLAIM, SNAPSHOT) and not (reference or {}).get("namespace"):
        spec["dataSource"] = dict(reference or {})


def _kind(source: Object | None) -> tuple[str, str]:
    return ((source or {}).get("kind") or "", (source or {}).get("apiGroup") or "")


def claim_change_causes(new: Object, old: Object) -> list[Cause]:
    """Allow a bound claim to grow, and a claim without volume or class to get one."""
    now, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    wanted, granted = (at(claim, "spec", "resources", "requests", "storage") for claim in (new, old))
    if not before.get("volumeName") and now.get("volumeName"):
        before["volumeName"] = now["volumeName"]
    if _may_get_class(now, old):
        before[CLASS] = now[CLASS]
    if at(old, "status", "phase") == "Bound":
        if requests := at(now, "resources", "requests"):
            now["resources"] = {**now["resources"], "requests": {**requests, "storage": granted}}
        for spec in (now, before):
            spec.pop(ATTRIBUTES, None)
    causes = _annotation_causes(new, old) + ([forbidden("spec", FIXED)] if now != before else [])
    if _amount(wanted) < _amount(granted) and _amount(wanted) <= _amount(at(old, "status", "capacity", "storage")):
        causes.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return causes + changed_causes(now, before, "volumeMode") + _attributes_causes(new, old)


def _may_get_class(spec: Object, old: Object) -> bool:
    """Return True if a claim without a class is given one; "" is the class of volumes that have none."""
    named = _annotated_class(old)
    return at(old, "spec", CLASS) is None and spec.get(CLASS) is not None and named in (None, spec[CLASS])


def _annotation_causes(new: Object, old: Object) -> list[Cause]:
    """Report a change of the annotation of the class, other than its move to the field."""
    now, before = _annotated_class(new), _annotated_class(old)
    moved = now is None and at(old, "spec", CLASS) is None and at(new, "spec", CLASS) == before
    if (now or "") == (before or "") or moved:
        return []
    return [invalid(f"metadata.annotations.{CLASS_ANNOTATION}", now or "", "field is immutable")]


def _annotated_class(claim: Object) -> str | None:
    return (at(claim, "metadata", "annotations") or {}).get(CLASS_ANNOTATION)


def _amount(quantity: Any) -> Quantity:
    return parse_quantity(quantity or "0")


def _attributes_causes(new: Object, old: Object) -> list[Cause]:
    """Report that the attributes of a volume are given up once they are applied."""
    now, before = (at(claim, "spec", ATTRIBUTES) for claim in (new, old))
    if now or now == before or at(old, "status", CURRENT) is None:
        return []
    to = "nil" if now is None else "empty string"
    return [forbidden(f"spec.{ATTRIBUTES}", f"update to {to} is forbidden when status.{CURRENT} is not nil")]


def _resource_name(path: str, name: str, causes: Causes) -> None:
    if faults := qualified_faults(name):
        causes.extend(invalid(path, name, fault) for fault in faults)
    elif is_native(name) and name != "storage":
        causes.append(unsupported(path, name, ("storage",)))


def _amounts(path: str, amounts: Object, causes: Causes, named: bool = False) -> None:
    for name, amount in amounts.items():
        if named:
            _resource_name(path, name, causes)
        if not 0 <= -(-parse_quantity(amount).nanos // 10**9) < INT64:
            causes.append(invalid(f"{path}[{name}]", amount, "must be a valid resource quantity"))


def _resizes(path: str, resizes: Object, causes: Causes) -> None:
    for name, resize in resizes.items():
        _resource_name(path, name, causes)
        causes += [] if resize in RESIZES else [unsupported(path, name, RESIZES)]


CLAIM_STATUS = Ordered(
    status=Ordered(
        capacity=_amounts, allocatedResources=partial(_amounts, named=True), allocatedResourceStatuses=_resizes
    )
)
"""Capacities, and what a resize has allocated."""
