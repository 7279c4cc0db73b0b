"""The CEL type of a schema, with the bounds of its values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.apiserver.custom.rule.names import escaped
from actors.apiserver.custom.schema.node import Node

LIMIT = 3 * 1024 * 1024
"""Bytes of the largest request, and so of the largest value."""
TEXTS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}


@dataclass(frozen=True)
class Kind:
    form: str
    """One of bool, int, double, string, bytes, timestamp, duration, dyn, list, map, object."""
    most: int | None = None
    """Maximum number of characters, items or entries."""
    item: "Kind | None" = None
    fields: Mapping[str, tuple[str, "Kind"]] = field(default_factory=dict)
    """Fields of an object by name: the escaped CEL name and the type."""


TEXT = Kind("string")
NAMES = Kind("object", fields={name: (name, TEXT) for name in ("name", "generateName")})
COMMON_FIELDS = {"apiVersion": ("apiVersion", TEXT), "kind": ("kind", TEXT), "metadata": ("metadata", NAMES)}


def kind_of(node: Node, root: bool) -> Kind | None:
    """Return the CEL type, or None if rules cannot access the value. `root`: the value is a whole API object."""
    if node.int_or_string:
        return Kind("dyn")
    if root:
        return Kind("object", fields={**_fields(node), **COMMON_FIELDS})
    if node.type in SCALARS:
        return Kind(SCALARS[node.type])
    if node.type == "string":
        return Kind(TEXTS.get(_text(node, "format"), "string"), _number(node, "maxLength"))
    if node.type == "array" and node.items is not None:
        item = kind_of(node.items, node.items.embedded)
        return None if item is None else Kind("list", _number(node, "maxItems"), item)
    return _object(node) if node.type == "object" else None


def _object(node: Node) -> Kind | None:
    if isinstance(node.additional, Node):
        item = kind_of(node.additional, node.additional.embedded)
        return None if item is None else Kind("map", _number(node, "maxProperties"), item)
    return Kind("object", fields=_fields(node))


def _fields(node: Node) -> dict[str, tuple[str, Kind]]:
    found = {name: (escaped(name), kind_of(part, part.embedded)) for name, part in node.properties.items()}
    return {
        name: (escaped_name, kind)
        for name, (escaped_name, kind) in found.items()
        if escaped_name is not None and kind is not None
    }


def _text(node: Node, name: str) -> str:
    value: Any = node.raw.get(name)
    return value if isinstance(value, str) else ""


def _number(node: Node, name: str) -> int | None:
    value = node.raw.get(name)
    return value if isinstance(value, int) else None
