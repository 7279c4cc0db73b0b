"""Fit custom objects to their schema: remove nulls, set defaults, prune unknown fields."""

from typing import Any

from protocols.kinds.custom.schema.node import MISSING, Node
from protocols.kube.errors import DefaultsTooLarge
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy


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


def has_defaults(node: Node) -> bool:
    """Return True if defaulting may change an object; kinds without any default skip it."""
    parts = [*node.properties.values(), *(part for part in (node.additional, node.items) if isinstance(part, Node))]
    return node.default is not MISSING or any(map(has_defaults, parts))


MOST_FILLED = 1536 * 1024
"""Bytes of defaults, as JSON, that an object may get: the store takes no larger one."""
MOST_SHOWN = 256 * 1024
"""The same for an object that was stored before its schema had them: a list converts 250 objects in a turn."""


def fill(obj: Object, node: Node, most: int = MOST_FILLED) -> None:
    """Fill in place. A null that is not nullable counts as missing if there is a default.

    Raises DefaultsTooLarge beyond `most` bytes; what was filled until then remains.
    """
    _Defaults(most).fill(obj, node)


class _Defaults:
    """The defaults of one object: a list of `{}` may get one of a megabyte for each three bytes."""

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def fill(self, value: Any, node: Node) -> None:
        if isinstance(value, dict):
            for name, part in node.properties.items():
                if part.default is not MISSING and _left_out(value, name, part):
                    value[name] = self._default(part)
                if name in value:
                    self.fill(value[name], part)
            if isinstance(node.additional, Node):
                for name in value.keys() - node.properties.keys():
                    value[name] = self._filled(value[name], node.additional)
        elif isinstance(value, list) and node.items is not None:
            value[:] = [self._filled(held, node.items) for held in value]

    def _filled(self, value: Any, node: Node) -> Any:
        """Fill a map entry or list item; null is replaced by the default, nothing is added."""
        if value is None and not node.nullable and node.default is not MISSING:
            value = self._default(node)
        self.fill(value, node)
        return value

    def _default(self, node: Node) -> Any:
        self._left -= node.default_size
        if self._left < 0:
            raise DefaultsTooLarge(f"the schema's defaults would add more than {self._most} bytes to the object")
        return fresh_copy({"": node.default})[""]


def _left_out(value: dict[str, Any], name: str, part: Node) -> bool:
    return value.get(name, MISSING) is MISSING or (value[name] is None and not part.nullable)


NOTHING = Node({})
"""Schema of what `additionalProperties: true` allows: upstream retains values there, but no fields of objects."""
NOTHING.items = NOTHING
MAX_REPORTED = 100
COMMON_FIELDS = ("apiVersion", "kind", "metadata")


def pruned(obj: Object, root: Node) -> list[str]:
    """Prune in place; return the sorted paths of removed fields, at most MAX_REPORTED. Skips metadata."""
    removed: list[str] = []
    _object(obj, root, "", removed, whole=True)
    return sorted(removed)


def pruned_value(value: Any, node: Node) -> list[str]:
    """Prune any value, such as a default, in place; return the paths of removed fields."""
    removed: list[str] = []
    _value(value, node, "", removed)
    return sorted(removed)


def pruned_part(obj: Object, root: Node, name: str) -> list[str]:
    """Prune one top-level field."""
    if name in COMMON_FIELDS:
        return []
    part = {name: obj[name]}
    removed: list[str] = []
    _object(part, root, "", removed, whole=True)
    if name not in part:
        del obj[name]
    return sorted(removed)


def _object(obj: Object, node: Node, path: str, removed: list[str], whole: bool = False, kept: bool = False) -> None:
    """Prune one object.

    `whole`: it is an API object, so apiVersion, kind and metadata are skipped; `kept`: unknown fields are preserved.
    """
    unknown = []
    for name, value in obj.items():
        if whole and name in COMMON_FIELDS:
            continue
        child = node.child(name) or (NOTHING if node.additional is True else None)
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
