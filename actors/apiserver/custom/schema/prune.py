"""Prune fields that the schema does not declare."""

from typing import Any

from actors.apiserver.api.objects import Obj
from actors.apiserver.custom.schema.node import Node

MAX_REPORTED = 100
COMMON_FIELDS = ("apiVersion", "kind", "metadata")


def pruned(obj: Obj, root: Node) -> list[str]:
    """Prune in place; return the sorted paths of removed fields, at most MAX_REPORTED. Skips metadata."""
    removed: list[str] = []
    _object(obj, root, "", removed, whole=True)
    return sorted(removed)


def pruned_part(obj: Obj, root: Node, name: str) -> list[str]:
    """Prune one top-level field."""
    if name in COMMON_FIELDS:
        return []
    part = {name: obj[name]}
    removed: list[str] = []
    _object(part, root, "", removed, whole=True)
    if name not in part:
        del obj[name]
    return sorted(removed)


def _object(obj: Obj, node: Node, path: str, removed: list[str], whole: bool = False, kept: bool = False) -> None:
    """Prune one object.

    `whole`: it is an API object, so apiVersion, kind and metadata are skipped; `kept`: unknown fields are preserved.
    """
    unknown = []
    for name, value in obj.items():
        if whole and name in COMMON_FIELDS:
            continue
        child = node.child(name)
        if child is not None:
            _value(value, child, f"{path}.{name}", removed)
        elif not kept and not node.knows(name):
            unknown.append(name)
    for name in unknown:
        del obj[name]
        if len(removed) < MAX_REPORTED:
            removed.append(f"{path}.{name}".removeprefix("."))


def _value(value: Any, node: Node, path: str, removed: list[str], kept: bool = False) -> None:
    """Prune a value. A list that preserves unknown fields does so for its items."""
    if isinstance(value, dict):
        _object(value, node, path, removed, node.embedded, kept)
    elif isinstance(value, list) and node.items is not None:
        for index, part in enumerate(value):
            _value(part, node.items, f"{path}[{index}]", removed, kept or node.kept)
