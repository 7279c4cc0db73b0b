"""The CEL type of a schema: escaped field names, types, and the maximum size of values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.apiserver.custom.schema.node import Node
from protocols.cel.costs.sizes import ONE, Declared, Size

RESERVED = {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
RESERVED |= {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
ACCESSIBLE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
SPECIAL = re.compile(r"__|[./-]")
WORDS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escaped(name: str) -> str | None:
    """Return the CEL identifier, or None if rules cannot access the field."""
    if name in RESERVED:
        return f"__{name}__"
    if ACCESSIBLE.fullmatch(name) is None:
        return None
    return SPECIAL.sub(lambda found: WORDS[found.group()], name)


LIMIT = 3 * 1024 * 1024
"""Bytes of the largest request, and so of the largest value."""
TEXTS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}


@dataclass(frozen=True)
class CelType:
    form: str
    """One of bool, int, double, string, bytes, timestamp, duration, dyn, list, map, object."""
    most: int | None = None
    """Maximum number of characters, items or entries."""
    item: "CelType | None" = None
    fields: Mapping[str, tuple[str, "CelType"]] = field(default_factory=dict)
    """Fields of an object by name: the escaped CEL name and the type."""


TEXT = CelType("string")
NAMES = CelType("object", fields={name: (name, TEXT) for name in ("name", "generateName")})
COMMON_FIELDS = {"apiVersion": ("apiVersion", TEXT), "kind": ("kind", TEXT), "metadata": ("metadata", NAMES)}


def cel_type_of(node: Node, root: bool) -> CelType | None:
    """Return the CEL type, or None if rules cannot access the value. `root`: the value is a whole API object."""
    if node.int_or_string:
        return CelType("dyn")
    if root:
        return CelType("object", fields={**_fields(node), **COMMON_FIELDS})
    if node.type in SCALARS:
        return CelType(SCALARS[node.type])
    if node.type == "string":
        return CelType(TEXTS.get(_text(node, "format"), "string"), _number(node, "maxLength"))
    if node.type == "array" and node.items is not None:
        item = cel_type_of(node.items, node.items.embedded)
        return None if item is None else CelType("list", _number(node, "maxItems"), item)
    return _object(node) if node.type == "object" else None


def _object(node: Node) -> CelType | None:
    if isinstance(node.additional, Node):
        item = cel_type_of(node.additional, node.additional.embedded)
        return None if item is None else CelType("map", _number(node, "maxProperties"), item)
    return CelType("object", fields=_fields(node))


def _fields(node: Node) -> dict[str, tuple[str, CelType]]:
    found = {name: (escaped(name), cel_type_of(part, part.embedded)) for name, part in node.properties.items()}
    return {
        name: (escaped_name, cel_type)
        for name, (escaped_name, cel_type) in found.items()
        if escaped_name is not None and cel_type is not None
    }


def _text(node: Node, name: str) -> str:
    value: Any = node.raw.get(name)
    return value if isinstance(value, str) else ""


def _number(node: Node, name: str) -> int | None:
    value = node.raw.get(name)
    return value if isinstance(value, int) else None


LEAST = {"bool": 4, "string": 2, "bytes": 2, "timestamp": 12, "duration": 2, "list": 2, "map": 2, "object": 2}
"""Bytes of the smallest JSON value of a type; 1 for others."""


def size_of(cel_type: CelType, cap: int = LIMIT) -> Size:
    """Return the maximum size; the whole value takes at most `cap` bytes."""
    if cel_type.form in ("string", "bytes", "dyn"):
        length = min(cap, cel_type.most if cel_type.most is not None else cap)
        return Size(length, length)
    if cel_type.form == "object":
        return _object_size(cel_type, cap)
    if cel_type.item is None:
        return ONE
    length = max_count(cel_type, cap)
    item = size_of(cel_type.item, cap)
    return Declared(length, min(cap, length + length * item.deep), item)


def max_count(cel_type: CelType, cap: int = LIMIT) -> int:
    """Return the maximum number of items or entries."""
    least = LEAST.get(cel_type.item.form, 1) + 1 if cel_type.item is not None else 1
    fitting = cap // (least + (3 if cel_type.form == "map" else 0))
    return min(fitting, cel_type.most) if cel_type.most is not None else fitting


def _object_size(cel_type: CelType, cap: int) -> Size:
    fields = {name: size_of(each, cap) for name, each in cel_type.fields.values()}
    deep = min(cap, len(fields) + sum(size.deep for size in fields.values()))
    return Declared(len(fields), deep, None, fields)
