"""Fields that the schema does not have are taken out, and told."""

from typing import Any

from actors.apiserver.api.objects import Obj
from actors.apiserver.custom.schema.node import Node

MAX_TOLD = 100
OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")


def pruned(obj: Obj, root: Node) -> list[str]:
    """Change `obj` in place; the paths of what went, in order, at most MAX_TOLD. Its metadata is not looked at."""
    gone: list[str] = []
    _object(obj, root, "", gone, whole=True)
    return sorted(gone)


def pruned_part(obj: Obj, root: Node, name: str) -> list[str]:
    """The same for one top-level field."""
    if name in OF_EVERY_OBJECT:
        return []
    part = {name: obj[name]}
    gone: list[str] = []
    _object(part, root, "", gone, whole=True)
    if name not in part:
        del obj[name]
    return sorted(gone)


def _object(obj: Obj, node: Node, path: str, gone: list[str], whole: bool = False, kept: bool = False) -> None:
    """`whole`: this is an object of the API, with the fields each of them has; `kept`: so are all of this one."""
    strange = []
    for name, value in obj.items():
        if whole and name in OF_EVERY_OBJECT:
            continue
        child = node.child(name)
        if child is not None:
            _value(value, child, f"{path}.{name}", gone)
        elif not kept and not node.knows(name):
            strange.append(name)
    for name in strange:
        del obj[name]
        if len(gone) < MAX_TOLD:
            gone.append(f"{path}.{name}".removeprefix("."))


def _value(value: Any, node: Node, path: str, gone: list[str], kept: bool = False) -> None:
    """A list that keeps what it does not know does so for its items."""
    if isinstance(value, dict):
        _object(value, node, path, gone, node.embedded, kept)
    elif isinstance(value, list) and node.items is not None:
        for index, part in enumerate(value):
            _value(part, node.items, f"{path}[{index}]", gone, kept or node.kept)
