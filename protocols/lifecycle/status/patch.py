"""The patch that makes a pod's status in the API what it should be. Pure."""

from collections.abc import Mapping
from typing import Any

from protocols.kube.meta import Object
from protocols.kube.pods import FINISHED

MERGE_KEYS = {
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "allocatedResourcesStatus": "name",
}
"""Merge keys of lists that strategic merge patches by entry; all others are replaced."""

GENERATION = "observedGeneration"

FOREIGN_FIELDS = (
    "qosClass",
    "nominatedNodeName",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)
"""Fields that other writers own: never patched."""


def status_patch(uid: str, current: Mapping[str, Any], desired: Mapping[str, Any]) -> Object | None:
    """Return the body for PATCH pods/NAME/status, guarded by `uid`; None when nothing differs."""
    changes: Object = {}
    for key in sorted({*current, *desired} - {*FOREIGN_FIELDS}):
        old, new = current.get(key), desired.get(key)
        if same(old, new):
            continue
        if key in MERGE_KEYS and new is not None:
            if entries := _keyed(MERGE_KEYS[key], old or [], new):
                changes[key] = entries
        else:
            changes[key] = new
    if not changes:
        return None
    return {"metadata": {"uid": uid}, "status": changes}


def sets_more(patch: Object | None, than: Object) -> bool:
    """Return True if a patch sets fields, or entries of lists, that another does not."""
    return patch is not None and bool(_set(patch["status"]) - _set(than["status"]))


def _set(changes: Object) -> set[tuple[str, object]]:
    """Return fields with the keys of entries; a removal sets nothing."""
    fields: set[tuple[str, object]] = set()
    for field, value in changes.items():
        key = MERGE_KEYS.get(field)
        if key is not None:
            fields |= {(field, entry[key]) for entry in value or () if "$patch" not in entry}
        elif value is not None:
            fields.add((field, None))
    return fields


def shows_end(changes: Mapping[str, Any]) -> bool:
    """Return True if a patch shows that the pod or one of its containers has ended."""
    containers = changes.get("containerStatuses") or ()
    return changes.get("phase") in FINISHED or any(
        "terminated" in (container.get("state") or {}) for container in containers
    )


def observes_only(current: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    """Return True if the statuses differ at most in the generation of the pod that they observed."""
    return status_patch("", _unobserved(current), _unobserved(desired)) is None


def _unobserved(status: Mapping[str, Any]) -> Object:
    conditions = [
        {k: v for k, v in condition.items() if k != GENERATION} for condition in status.get("conditions") or ()
    ]
    return {**status, GENERATION: None, "conditions": conditions}


def _keyed(key: str, old: list[Object], new: list[Object]) -> list[Object]:
    """Return changed and added entries, and delete directives for removed ones."""
    before = {entry.get(key): entry for entry in old}
    names = {entry.get(key) for entry in new}
    changed = [_full(before.get(e.get(key)), e) for e in new if not same(before.get(e.get(key)), e)]
    return changed + [{key: name, "$patch": "delete"} for name in before if name not in names]


def _full(old: Object | None, new: Object) -> Object:
    """Return the entry with removed fields set to null."""
    return {**{field: None for field in old or {} if field not in new}, **new}


def same(one: object, other: object) -> bool:
    """Return True if a status may have either: absent, null and empty are equal."""
    if one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return _is_empty(one) and _is_empty(other)


def _is_empty(value: object) -> bool:
    return all(map(_is_empty, value.values())) if isinstance(value, dict) else value in (None, "", [])
