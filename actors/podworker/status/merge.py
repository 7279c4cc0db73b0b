"""The smallest strategic merge patch that turns one pod status into another. Pure."""

from actors.podworker.types import Object

KEYED = {
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "allocatedResourcesStatus": "name",
}
"""Lists of the pod status that strategic merge patches by key, in any order; all others are replaced whole."""


OTHERS = (
    "qosClass",
    "nominatedNodeName",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)
"""What others write into a pod's status: nothing of it is ever patched, whatever an older look at the pod has shown."""


def status_patch(uid: str, current: Object, desired: Object) -> Object | None:
    """A body for PATCH pods/NAME/status guarded by `uid`; None when nothing differs."""
    changes: Object = {}
    for key in sorted({*current, *desired} - {*OTHERS}):
        old, new = current.get(key), desired.get(key)
        if _plain(old) == _plain(new):
            continue
        if key in KEYED and new is not None:
            if entries := _keyed(KEYED[key], old or [], new):
                changes[key] = entries
        else:
            changes[key] = new
    if not changes:
        return None
    return {"metadata": {"uid": uid}, "status": changes}


def _keyed(key: str, old: list[Object], new: list[Object]) -> list[Object]:
    """Changed and added entries; removed ones by directive."""
    before = {entry.get(key): entry for entry in old}
    names = {entry.get(key) for entry in new}
    changed = [_full(before.get(e.get(key)), e) for e in new if _plain(before.get(e.get(key))) != _plain(e)]
    return changed + [{key: name, "$patch": "delete"} for name in before if name not in names]


def _full(old: Object | None, new: Object) -> Object:
    """An entry as patched: fields that went away are set to null."""
    return {**{field: None for field in old or {} if field not in new}, **new}


def _plain(value: object) -> object:
    """Absent, null and empty mean the same in a status."""
    if isinstance(value, dict):
        return {k: p for k, v in value.items() if (p := _plain(v)) is not None} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    return None if value == "" else value


def same(one: Object, other: Object) -> bool:
    return _plain(one) == _plain(other)
