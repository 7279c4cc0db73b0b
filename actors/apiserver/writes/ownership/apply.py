"""Server-side apply: merge a configuration, prune abandoned fields, report conflicts."""

from typing import Any

import msgspec

from actors.apiserver.writes.ownership.compare import changes, element_of, owned, parts
from actors.apiserver.writes.ownership.entries import (
    UPDATE,
    Author,
    Entries,
    fields_of,
    release_changed,
    tracked,
    with_fields,
)
from actors.apiserver.writes.ownership.fields import Fields, member, paths, touched, union
from protocols.errors import NodeplaneError
from protocols.kinds.shapes.shape import LIST, STRUCT, Shape
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object


class ConfigInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when an applied configuration has unknown fields, or list elements without distinct keys."""


class OwnedByOthers(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised when an apply would change fields of other managers. `fields` are entries and paths."""

    def __init__(self, fields: "list[tuple[dict[str, object], tuple[str, ...]]]") -> None:
        super().__init__("fields are owned by other managers")
        self.fields = fields


GONE = object()


def pruned(obj: Object, dropped: Fields, kept: Fields, shape: Shape) -> Object:
    """Remove fields that a manager has abandoned and no other owns.

    `dropped` are the fields that the manager owned, `kept` those that any manager owns from now on.
    """
    left = dict(obj)
    for element, node in dropped.items():
        name = element[2:]
        field, value = shape.child(name), left.get(name)
        if field is None or value is None:
            continue
        rest = _rest(value, field, node, kept.get(element), whole=field.form != STRUCT or member(node))
        if rest is GONE:
            del left[name]
        else:
            left[name] = rest
    return left


def _rest(value: Any, shape: Shape, dropped: Fields, kept: Fields | None, whole: bool) -> Any:
    """Return what remains of a value. With `whole`, it is removed completely unless a part is kept."""
    if kept is None and whole:
        return GONE
    below = parts(value, shape)
    if below is None:
        return value
    stays = {}
    for element, (part, kind) in below.items():
        node = dropped.get(element)
        if node is None:
            stays[element] = part
            continue
        goes = shape.form == STRUCT or member(node)
        rest = _rest(part, kind, node, (kept or {}).get(element), goes)
        if rest is not GONE:
            stays[element] = rest
    return _assembled(value, shape, below, stays)


def _assembled(value: Any, shape: Shape, below: dict[str, Any], stays: dict[str, Any]) -> Any:
    if len(stays) == len(below) and all(stays[element] is part for element, (part, _) in below.items()):
        return value
    if shape.form == LIST:
        return list(stays.values())
    gone = {element[2:] for element in below if element not in stays}
    return {key: stays.get(f"f:{key}", part) for key, part in value.items() if key not in gone}


def without_nulls(value: Any) -> Any:
    """Return a configuration without nulls, which set no value."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value if part is not None]
    return value


def merged(live: Object, config: Object, shape: Shape) -> Object:
    """Merge a configuration into an object. Unchanged parts are shared. Raises ConfigInvalid."""
    result: Object = _merge(live, config, shape, "")
    return result


def _merge(live: Any, config: Any, shape: Shape, path: str) -> Any:
    if shape.leaf:
        return config
    if shape.form == LIST and isinstance(config, list):
        return _merge_list(live, config, shape, path)
    if not isinstance(config, dict):
        return config  # a wrong type, which validation of the result reports, or an undeclared one
    result = dict(live) if isinstance(live, dict) else {}
    for key, value in config.items():
        child = shape.child(key)
        if child is None:
            raise ConfigInvalid(f"{path}.{key}: field not declared in schema")
        result[key] = _merge(result.get(key), value, child, f"{path}.{key}")
    return result


def _merge_list(live: Any, config: list[Any], shape: Shape, path: str) -> list[Any]:
    """Merge lists in the order of the configuration; other elements keep their place before their successors."""
    wanted = _by_element(config, shape, path)
    had = [(element_of(part, shape), part) for part in (live if isinstance(live, list) else ())]
    stands = {element: part for element, part in reversed(had) if element is not None}
    assert shape.item is not None
    result, placed = [], set()

    def place(element: str) -> None:
        placed.add(element)
        before = stands.get(element)
        assert shape.item is not None
        result.append(_merge(before, wanted[element], shape.item, path) if shape.keys else wanted[element])

    order = iter(wanted)
    for element, part in had:
        if element not in wanted:
            result.append(part)
            continue
        while element not in placed:
            place(next(order))
    for element in order:
        place(element)
    return result


def _by_element(config: list[Any], shape: Shape, path: str) -> dict[str, Any]:
    by_element: dict[str, Any] = {}
    for index, part in enumerate(config):
        element = element_of(part, shape)
        if element is None:
            keys = ", ".join(f'"{key}"' for key in shape.keys)
            text = "associative list with keys has an element that omits all key fields"
            raise ConfigInvalid(f"{path}: element {index}: {text} [{keys}] (and doesn't have default values for any)")
        if element in by_element:
            raise ConfigInvalid(f"{path}: duplicate entries for key {element[2:]}")
        by_element[element] = part
    return by_element


BEFORE = "before-first-apply"
"""Manager of the fields of an object that had no managedFields before its first apply."""


class Applied(msgspec.Struct, frozen=True):
    """Result of an apply: the merged object, and the owners of its fields."""

    obj: Object
    entries: Entries


def applied(
    live: Object, config: Object, shape: Shape, entries: Entries, author: Author, force: bool = False
) -> Applied:
    """Apply `config`, which has no nulls, to `live`, {} before creation. Raises ConfigInvalid, OwnedByOthers."""
    if live and not entries:
        entries = tracked({}, live, shape, Author(BEFORE, UPDATE, author.api_version), [])
    mine, before = owned(config, shape), fields_of(entries, author)
    result = merged(live, config, shape)
    if before:
        result = pruned(result, before, union(mine, _others(entries, author)), shape)
    done = changes(live, result, shape)
    if not force:
        _check(entries, author, done.written)
    if same_json(result, live) and mine == before:
        return Applied(live, entries)
    return Applied(result, with_fields(release_changed(entries, author, done), author, mine))


def _others(entries: Entries, author: Author) -> Fields:
    fields: Fields = {}
    for entry in entries:
        if not author.is_of(entry):
            fields = union(fields, entry["fieldsV1"])
    return fields


def _check(entries: Entries, author: Author, written: Fields) -> None:
    conflicts = [
        (entry, path)
        for entry in entries
        if not author.is_of(entry)
        for path in paths(touched(entry["fieldsV1"], written))
    ]
    if conflicts:
        raise OwnedByOthers(conflicts)
