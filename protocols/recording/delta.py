"""The difference between two values of JSON types, and its application.

A delta is `[0]` (removed), `[1, value]` (set), or `[2, {field: delta}]` (fields of a map that changed). Lists are
replaced whole.
"""

from typing import Any

from protocols.recording.frames import RecordingInvalid

REMOVED, SET, FIELDS = 0, 1, 2
DEEPEST = 64
"""Levels of nested maps that a delta may change."""
Delta = list[Any]


def delta_of(old: Any, new: Any, level: int = 0) -> Delta:
    """Return what makes `new` of `old`, which differ."""
    if not isinstance(old, dict) or not isinstance(new, dict) or level == DEEPEST:
        return [SET, new]
    fields: dict[str, Delta] = {}
    for name, value in new.items():
        if name not in old:
            fields[name] = [SET, value]
        elif old[name] != value:
            fields[name] = delta_of(old[name], value, level + 1)
    for name in old.keys() - new.keys():
        fields[name] = [REMOVED]
    return [FIELDS, fields]


def apply(items: dict[str, Any], key: str, delta: Delta) -> None:
    """Change an entry of a map; values that were there before are not mutated. Raises RecordingInvalid."""
    _apply(items, key, delta, 0)


def _apply(items: dict[str, Any], key: str, delta: Delta, level: int) -> None:
    match delta:
        case [0]:
            items.pop(key, None)
        case [1, value]:
            items[key] = value
        case [2, dict() as fields] if isinstance(items.get(key), dict) and level <= DEEPEST:
            items[key] = changed = dict(items[key])
            for name, inner in fields.items():
                _apply(changed, name, inner, level + 1)
        case _:
            raise RecordingInvalid(f"a change of {key[:100]!r} does not fit what it changes")
