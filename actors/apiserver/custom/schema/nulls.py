"""Remove nulls from fields that are not nullable. Fields with a default are filled later."""

from typing import Any

from actors.apiserver.custom.schema.node import MISSING, Node


def drop_nulls(value: Any, node: Node) -> None:
    """Remove in place. Nulls in lists remain, and fail validation: removing them would move other items."""
    if isinstance(value, dict):
        gone = []
        for name, part in value.items():
            child = node.child(name)
            if child is None:
                continue
            if part is None and not child.nullable and child.default is MISSING:
                gone.append(name)
            else:
                drop_nulls(part, child)
        for name in gone:
            del value[name]
    elif isinstance(value, list) and node.items is not None:
        for part in value:
            drop_nulls(part, node.items)
