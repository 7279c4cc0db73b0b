"""Strategic merge patch for the served kinds: a merge patch whose lists merge by key, with directives.

Inputs are never changed; results may share unchanged parts with them. A directive of the wrong shape is a 400, one that
contradicts the rest of the patch a 422.
"""

from collections.abc import Hashable
from typing import Any

from protocols.kube import patch_order as order
from protocols.kube.errors import PatchImpossible, PatchInvalid
from protocols.kube.meta import Object
from protocols.kube.strategic_keys import NOTHING, Node, node_of

PATCH, RETAIN = "$patch", "$retainKeys"
ORDER, REMOVE = "$setElementOrder/", "$deleteFromPrimitiveList/"


def apply_strategic_patch(kind: str, document: Object, patch: Any) -> Object:
    """`document`, an object of `kind`, with `patch` applied; raises StatusError."""
    if not isinstance(patch, dict):
        raise PatchInvalid("a strategic merge patch must be a JSON object")
    return _merge_map(document, patch, node_of(kind))


def _merge_map(document: Object, patch: Object, node: Node) -> Object:
    """One map with one map of the patch, directives included."""
    directive = patch.get(PATCH)
    if directive == "replace":
        return _merge_map({}, {key: value for key, value in patch.items() if key != PATCH}, node)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchImpossible(f"unknown patch type found: {directive!r}; use replace, delete or merge")
    merged = _retained(document, patch)
    for field in _touched(patch):
        _merge_field(merged, patch, field, node.fields.get(field, NOTHING))
    return merged


def _touched(patch: Object) -> list[str]:
    """Fields the patch speaks of, by themselves or by a directive, in order."""
    names = (key.split("/", 1)[1] if key.startswith((ORDER, REMOVE)) else key for key in patch)
    return list(dict.fromkeys(name for name in names if name not in (PATCH, RETAIN)))


def _retained(document: Object, patch: Object) -> Object:
    """A copy of the map without the keys that $retainKeys does not list."""
    if RETAIN not in patch:
        return dict(document)
    keys = patch[RETAIN]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise PatchInvalid("$retainKeys must be a list of strings")
    stray = [key for key, value in patch.items() if value is not None and key[0:1] != "$" and key not in keys]
    if stray:
        raise PatchInvalid(f"$retainKeys must list every key the patch sets; {stray[0]!r} is missing")
    return {key: value for key, value in document.items() if key in keys}


def _merge_field(merged: Object, patch: Object, field: str, node: Node) -> None:
    before = merged.get(field)
    if field in patch and patch[field] is None:
        merged.pop(field, None)
        return
    if REMOVE + field in patch:
        before = _without(before, patch[REMOVE + field], field)
    if field in patch:
        before = _merge_value(before, patch[field], node, field)
    if ORDER + field in patch and isinstance(before, list):
        listed = order.listed_tokens(patch[ORDER + field], node.key, field)
        before = order.arranged(before, merged.get(field), patch.get(field), listed, node.key, field)
    if before is not None:
        merged[field] = before


def _without(before: Any, removed: Any, field: str) -> Any:
    if not isinstance(removed, list):
        raise PatchInvalid(f"{REMOVE}{field} must be a list")
    if not isinstance(before, list):
        return before
    gone = {order.token(item) for item in removed}
    return [item for item in before if order.token(item) not in gone]


def _merge_value(before: Any, value: Any, node: Node, field: str) -> Any:
    if isinstance(value, dict):
        if before is None and value.get(PATCH) == "delete":
            return None
        return _merge_map(before if isinstance(before, dict) else {}, value, node)
    if not isinstance(value, list):
        return value
    stored = before if isinstance(before, list) else []
    if node.key:
        return _merge_keyed(stored, value, node, field)
    if node.scalars:
        return _merge_scalars(stored, value)
    return [item for item in value if not _is_replace(item)]


def _merge_scalars(stored: list[Any], value: list[Any]) -> list[Any]:
    merged: dict[Hashable, Any] = {}
    for item in (*stored, *value):
        merged.setdefault(order.token(item), item)
    return list(merged.values())


def _is_replace(item: Any) -> bool:
    return isinstance(item, dict) and item.get(PATCH) == "replace"


def _merge_keyed(stored: list[Any], value: list[Any], node: Node, field: str) -> list[Any]:
    if any(_is_replace(item) for item in value):
        stored, value = [], [item for item in value if not _is_replace(item)]
    named = [(_key_token(item, node.key, field), item) for item in value]
    gone = {name for name, item in named if item.get(PATCH) == "delete"}
    merged = [item for item in stored if order.key_token(item, node.key) not in gone]
    known = order.places(merged, node.key)
    for name, item in named:
        if item.get(PATCH) == "delete":
            continue
        if name not in known:
            known[name] = len(merged)
            merged.append({})
        merged[known[name]] = _merge_map(merged[known[name]], item, node)
    return merged


def _key_token(item: Any, key: str, field: str) -> Hashable:
    if not isinstance(item, dict):
        raise PatchInvalid(f"elements of {field!r} must be JSON objects")
    if item.get(key) is None:
        raise PatchImpossible(f"an element of {field!r} does not contain declared merge key: {key}")
    return order.key_token(item, key)
