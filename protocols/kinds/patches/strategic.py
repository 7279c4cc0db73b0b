"""Strategic merge patch for the served kinds: a merge patch whose lists merge by key, with directives.

The shape of a value decides how its lists merge; a value without a shape is patched like JSON, its lists as a whole.

Inputs are never changed; results may share unchanged parts with them. A directive of the wrong shape is a 400, one that
contradicts the rest of the patch a 422.
"""

from collections.abc import Hashable
from typing import Any

import msgspec

from protocols.kinds.shapes.shape import LIST, Shape
from protocols.kube.errors import PatchImpossible, PatchInvalid
from protocols.kube.meta import Object

NO_KEY = object()
"""Token of an element without the merge key: it is never matched."""


def token(value: Any) -> Hashable:
    """Return equal values for equal JSON values: 1 and 1.0 are the same, true and 1 are not."""
    if isinstance(value, (bool, dict, list)):
        return msgspec.json.encode(value, order="deterministic")
    return value if value is None else (isinstance(value, str), value)


def key_token(item: Any, key: str) -> Hashable:
    """Token of an element's merge key, or of the element itself when `key` is empty."""
    if not key:
        return token(item)
    return token(item[key]) if isinstance(item, dict) and key in item else NO_KEY


def places(items: list[Any], key: str) -> dict[Hashable, int]:
    """Index of the first element of each token."""
    indices: dict[Hashable, int] = {}
    for at, item in enumerate(items):
        indices.setdefault(key_token(item, key), at)
    indices.pop(NO_KEY, None)
    return indices


def listed_tokens(directive: Any, key: str, field: str) -> dict[Hashable, int]:
    """Return the places of elements in an order that a directive asks for; raises PatchInvalid."""
    if not isinstance(directive, list):
        raise PatchInvalid(f"$setElementOrder/{field} must be a list")
    if key:
        if not all(isinstance(item, dict) and item.get(key) is not None for item in directive):
            raise PatchInvalid(f"$setElementOrder/{field} must list objects with the merge key {key!r}")
    elif any(isinstance(item, (dict, list)) for item in directive):
        raise PatchInvalid(f"$setElementOrder/{field} must list scalars")
    return places(directive, key)


def arranged(
    merged: list[Any], before: Any, patch: Any, listed: dict[Hashable, int], key: str, field: str
) -> list[Any]:
    """Return the merged list in the listed order; elements that only the server has stay beside their neighbours."""
    _check_patch(patch if isinstance(patch, list) else [], listed, key, field)
    tokens = [(key_token(item, key), item) for item in merged]
    ordered = sorted((pair for pair in tokens if pair[0] in listed), key=lambda pair: listed[pair[0]])
    others = [pair for pair in tokens if pair[0] not in listed]
    return _interleaved(others, ordered, places(before if isinstance(before, list) else [], key))


def _check_patch(patch: list[Any], listed: dict[Hashable, int], key: str, field: str) -> None:
    """Elements the patch sets must appear among the listed ones, in the same order."""
    last = -1
    for item in patch:
        if isinstance(item, dict) and "$patch" in item:
            continue
        at = listed.get(key_token(item, key), -1)
        if at < last or at < 0:
            raise PatchImpossible(f"the order in patch list {field!r} does not match $setElementOrder/{field}")
        last = at


Pairs = list[tuple[Hashable, Any]]


def _interleaved(others: Pairs, ordered: Pairs, stored: dict[Hashable, int]) -> list[Any]:
    """Merge two lists, each in its own order.

    An element of `others` comes before an ordered element if it stood before that one in `stored`.
    """
    merged, waiting = [], 0
    for name, item in ordered:
        place = stored.get(name, -1)
        while waiting < len(others) and 0 <= stored.get(others[waiting][0], -1) < place:
            merged.append(others[waiting][1])
            waiting += 1
        merged.append(item)
    return [*merged, *(item for _, item in others[waiting:])]


PATCH, RETAIN = "$patch", "$retainKeys"
ORDER, REMOVE = "$setElementOrder/", "$deleteFromPrimitiveList/"


def apply_strategic_patch(shape: Shape | None, document: Object, patch: Any) -> Object:
    """Return `document`, an object of this shape, with `patch` applied; raises StatusError."""
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise PatchInvalid("a strategic merge patch must be a JSON object")
    return _merge_map(document, patch, shape)


def _merge_key(shape: Shape | None) -> str:
    """Return the key by which a list merges; an empty text for other values."""
    return shape.patch[1] if shape is not None and shape.form == LIST else ""


def _merge_map(document: Object, patch: Object, shape: Shape | None) -> Object:
    """Apply one map of a patch, with its directives, to a map of the document."""
    directive = patch.get(PATCH)
    if directive == "replace":
        return _merge_map({}, {key: value for key, value in patch.items() if key != PATCH}, shape)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchImpossible(f"unknown patch type found: {directive!r}; use replace, delete or merge")
    merged = _retained(document, patch)
    for field in _touched(patch):
        _merge_field(merged, patch, field, shape.child(field) if shape is not None else None)
    return merged


def _touched(patch: Object) -> list[str]:
    """Return the fields that the patch names, by themselves or by a directive, in order."""
    names = (key.split("/", 1)[1] if key.startswith((ORDER, REMOVE)) else key for key in patch)
    return list(dict.fromkeys(name for name in names if name not in (PATCH, RETAIN)))


def _retained(document: Object, patch: Object) -> Object:
    """Return a copy of the map without the keys that $retainKeys does not list."""
    if RETAIN not in patch:
        return dict(document)
    keys = patch[RETAIN]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise PatchInvalid("$retainKeys must be a list of strings")
    unlisted = [key for key, value in patch.items() if value is not None and key[0:1] != "$" and key not in keys]
    if unlisted:
        raise PatchInvalid(f"$retainKeys must list every key the patch sets; {unlisted[0]!r} is missing")
    return {key: value for key, value in document.items() if key in keys}


def _merge_field(merged: Object, patch: Object, field: str, shape: Shape | None) -> None:
    before = merged.get(field)
    if field in patch and patch[field] is None:
        merged.pop(field, None)
        return
    if REMOVE + field in patch:
        before = _without(before, patch[REMOVE + field])
    if field in patch:
        before = _merge_value(before, patch[field], shape, field)
    if ORDER + field in patch and isinstance(before, list):
        key = _merge_key(shape)
        listed = listed_tokens(patch[ORDER + field], key, field)
        before = arranged(before, merged.get(field), patch.get(field), listed, key, field)
    if before is not None:
        merged[field] = before


def _without(before: Any, removed: Any) -> Any:
    if not isinstance(removed, list) or not isinstance(before, list):  # upstream passes over what is no list
        return before
    gone = {token(item) for item in removed}
    return [item for item in before if token(item) not in gone]


def _merge_value(before: Any, value: Any, shape: Shape | None, field: str) -> Any:
    if isinstance(value, dict):
        if before is None and value.get(PATCH) == "delete":
            return None
        whole = shape is not None and shape.patch[0] == "replace"
        return _merge_map(before if isinstance(before, dict) and not whole else {}, value, shape)
    if not isinstance(value, list):
        return value
    stored = before if isinstance(before, list) else []
    if key := _merge_key(shape):
        return _merge_keyed(stored, value, (key, shape.item if shape is not None else None), field)
    if shape is not None and shape.form == LIST and shape.patch[0]:
        return _merge_scalars(stored, value)
    return [item for item in value if not _is_replace(item)]


def _merge_scalars(stored: list[Any], value: list[Any]) -> list[Any]:
    merged: dict[Hashable, Any] = {}
    for item in (*stored, *value):
        merged.setdefault(token(item), item)
    return _placed(list(merged.values()), stored, value, "")


def _placed(merged: list[Any], stored: list[Any], value: list[Any], key: str) -> list[Any]:
    """Return the elements with those of the patch in its order, before the others that they did not follow."""
    listed = places(value, key)
    tokens = [(key_token(item, key), item) for item in merged]
    ordered = sorted((pair for pair in tokens if pair[0] in listed), key=lambda pair: listed[pair[0]])
    return _interleaved([pair for pair in tokens if pair[0] not in listed], ordered, places(stored, key))


def _is_replace(item: Any) -> bool:
    return isinstance(item, dict) and item.get(PATCH) == "replace"


def _merge_keyed(stored: list[Any], value: list[Any], by: tuple[str, Shape | None], field: str) -> list[Any]:
    """Merge a list of objects; `by` is the merge key and the shape of an element."""
    key, item_shape = by
    if any(_is_replace(item) for item in value):
        stored, value = [], [item for item in value if not _is_replace(item)]
    named = [(_key_token(item, key, field), item) for item in value]
    gone = {name for name, item in named if item.get(PATCH) == "delete"}
    merged = [item for item in stored if key_token(item, key) not in gone]
    known = places(merged, key)
    for name, item in named:
        if item.get(PATCH) == "delete":
            continue
        if name not in known:
            known[name] = len(merged)
            merged.append({})
        merged[known[name]] = _merge_map(merged[known[name]], item, item_shape)
    return _placed(merged, stored, [item for _, item in named if item.get(PATCH) != "delete"], key)


def _key_token(item: Any, key: str, field: str) -> Hashable:
    if not isinstance(item, dict):
        raise PatchInvalid(f"elements of {field!r} must be JSON objects")
    if item.get(key) is None:
        raise PatchImpossible(f"an element of {field!r} does not contain declared merge key: {key}")
    return key_token(item, key)
