"""The CEL type of a schema, with the escaped names of its fields."""

import re
from typing import Any

from protocols.cel.rules.values import CelType
from protocols.kinds.custom.schema.node import Node

RESERVED = {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
RESERVED |= {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
ACCESSIBLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII)
SPECIAL = re.compile(r"__|[./-]")
WORDS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escaped(name: str) -> str | None:
    """Return the CEL identifier, or None if rules cannot access the field."""
    if name in RESERVED:
        return f"__{name}__"
    if ACCESSIBLE.fullmatch(name) is None:
        return None
    return SPECIAL.sub(lambda match: WORDS[match.group()], name)


TEXTS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}


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
        return None if item is None else CelType("list", _number(node, "maxItems"), item, keys=_keys(node))
    return _object(node) if node.type == "object" else None


def _object(node: Node) -> CelType | None:
    if isinstance(node.additional, Node):
        item = cel_type_of(node.additional, node.additional.embedded)
        return None if item is None else CelType("map", _number(node, "maxProperties"), item)
    return CelType("object", fields=_fields(node))


def _keys(node: Node) -> tuple[str, ...] | None:
    if node.list_type == "set":
        return ()
    return tuple([escaped(key) or key for key in node.keys]) if node.list_type == "map" else None


def _fields(node: Node) -> dict[str, tuple[str, CelType]]:
    typed = {name: (escaped(name), cel_type_of(part, part.embedded)) for name, part in node.properties.items()}
    return {
        name: (escaped_name, cel_type)
        for name, (escaped_name, cel_type) in typed.items()
        if escaped_name is not None and cel_type is not None
    }


def _text(node: Node, name: str) -> str:
    value: Any = node.raw.get(name)
    return value if isinstance(value, str) else ""


def _number(node: Node, name: str) -> int | None:
    value = node.raw.get(name)
    return value if isinstance(value, int) else None
