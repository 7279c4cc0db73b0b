"""Kubernetes objects as plain JSON: access to fields, times, mirror pods."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

Obj = dict[str, Any]
"""A Kubernetes object."""


def at(obj: Any, *path: str) -> Any:
    """The value at `path`, None when any step is missing or no object."""
    for step in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def text(obj: Any, *path: str) -> str:
    """The value at `path` as text; missing = empty, booleans as JSON writes them."""
    value = at(obj, *path)
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def items(obj: Any, *path: str) -> list[Obj]:
    """The list of objects at `path`; whatever else stands there reads as empty."""
    value = at(obj, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def now() -> str:
    return _told(int(time.time()))


@lru_cache(maxsize=2)
def _told(second: int) -> str:
    """Made once a second, however many objects are written in it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


MIRROR = "kubernetes.io/config.mirror"


def is_mirror(pod: Obj) -> bool:
    """Return whether the pod carries the mirror annotation, whatever its value."""
    return MIRROR in (at(pod, "metadata", "annotations") or {})
