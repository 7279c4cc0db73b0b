"""Validate lists: length and duplicates. Elements of a list over the limit are not validated."""

from collections.abc import Callable, Iterable
from typing import Any

from actors.apiserver.api.causes import Cause, duplicate, too_many
from actors.apiserver.api.objects import Obj

Check = Callable[[str, Any], list[Cause]]


def each(path: str, values: Any, limit: int, check: Check, key: Callable[[Any], Any] | None = None) -> list[Cause]:
    """Validate each element; with `key`, elements must differ by it."""
    if not isinstance(values, list):
        return []
    if len(values) > limit:
        return [too_many(path, len(values), limit)]
    causes = [cause for index, value in enumerate(values) for cause in check(f"{path}[{index}]", value)]
    return causes + (repeated(path, map(key, values)) if key else [])


def repeated(path: str, keys: Iterable[Any]) -> list[Cause]:
    seen, causes = set(), []
    for index, key in enumerate(keys):
        if key in seen:
            causes.append(duplicate(f"{path}[{index}]", key))
        seen.add(key)
    return causes


def table(value: Any) -> Obj:
    """Return the value if it is a map, else an empty map."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Obj]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
