"""Defaults for missing fields."""

from typing import Any

from actors.apiserver.api.stored import fresh_copy
from actors.apiserver.custom.schema.node import MISSING, Node


def has_defaults(node: Node) -> bool:
    parts = [*node.properties.values(), *(part for part in (node.additional, node.items) if isinstance(part, Node))]
    return node.default is not MISSING or any(map(has_defaults, parts))


def fill(value: Any, node: Node) -> None:
    """Fill in place. A null that is not nullable counts as missing if there is a default."""
    if isinstance(value, dict):
        for name, part in node.properties.items():
            if part.default is not MISSING and _left_out(value, name, part):
                value[name] = fresh_copy({"": part.default})[""]
            if name in value:
                fill(value[name], part)
        if isinstance(node.additional, Node):
            for name in value.keys() - node.properties.keys():
                value[name] = _filled(value[name], node.additional)
    elif isinstance(value, list) and node.items is not None:
        value[:] = [_filled(held, node.items) for held in value]


def _filled(value: Any, node: Node) -> Any:
    """Fill a map entry or list item; null is replaced by the default, nothing is added."""
    if value is None and not node.nullable and node.default is not MISSING:
        value = fresh_copy({"": node.default})[""]
    fill(value, node)
    return value


def _left_out(value: dict[str, Any], name: str, part: Node) -> bool:
    return value.get(name, MISSING) is MISSING or (value[name] is None and not part.nullable)
