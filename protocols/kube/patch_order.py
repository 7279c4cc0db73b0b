"""$setElementOrder of strategic merge: in which order a merged list ends up. Linear in the size of the lists."""

from collections.abc import Hashable
from typing import Any

import msgspec

from protocols.kube.errors import PatchImpossible, PatchInvalid

NO_KEY = object()
"""Token of an element without the merge key: it is never matched."""


def token(value: Any) -> Hashable:
    """Equal for equal JSON values: 1 and 1.0 are the same, true and 1 are not."""
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
    found: dict[Hashable, int] = {}
    for at, item in enumerate(items):
        found.setdefault(key_token(item, key), at)
    found.pop(NO_KEY, None)
    return found


def listed_tokens(directive: Any, key: str, field: str) -> dict[Hashable, int]:
    """The order a directive asks for; raises BodyInvalid."""
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
    """`merged` in the listed order; elements only the server has keep their place relative to their old neighbours."""
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
    """Both lists keep their own order; one of `others` goes before an ordered element it stood before in `stored`."""
    merged, waiting = [], 0
    for name, item in ordered:
        place = stored.get(name, -1)
        while waiting < len(others) and 0 <= stored.get(others[waiting][0], -1) < place:
            merged.append(others[waiting][1])
            waiting += 1
        merged.append(item)
    return [*merged, *(item for _, item in others[waiting:])]
