"""Field sets: built from objects, compared, combined."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.apiserver.writes.ownership.fields import SELF, Fields, key_element, value_element
from protocols.kinds.shapes.shape import LIST, MAP, STRUCT, Shape
from protocols.kube.meta import Object

Part = tuple[Any, Shape]


def parts(value: Any, shape: Shape) -> dict[str, Part] | None:
    """Return the separately owned parts of a value by their elements; None if it is owned as a whole.

    Empty and absent values have no parts, and neither have lists with a repeated or missing key, which could be stored
    before the first apply. A repeated member of a set counts once.
    """
    kind = type(value)
    if not value or (kind is not dict and kind is not list) or shape.leaf:
        return None
    if shape.form == LIST:
        return _elements(value, shape) if kind is list else None
    if kind is not dict:
        return None
    if shape.form == MAP:
        assert shape.item is not None
        return {f"f:{key}": (part, shape.item) for key, part in value.items()}
    kinds, other = shape.fields, shape.item
    parts = {}
    for key, part in value.items():
        child = kinds.get(key, other)
        if child is not None:
            parts[f"f:{key}"] = (part, child)
    return parts


def _elements(value: list[Any], shape: Shape) -> dict[str, Part] | None:
    item = shape.item
    assert item is not None
    parts: dict[str, Part] = {}
    for part in value:
        element = element_of(part, shape)
        if element is None or (element in parts and not shape.scalar_set):
            return None
        parts[element] = (part, item)
    return parts


def element_of(part: Any, shape: Shape) -> str | None:
    """Return the FieldsV1 element of a list item; None if it has no key."""
    if shape.scalar_set:
        return None if isinstance(part, dict | list) or part is None else value_element(part)
    if type(part) is not dict or shape.item is None or shape.item.form != STRUCT:
        return None
    values = {}
    for key in shape.keys:
        value = part.get(key)
        if value is None:
            field = shape.item.fields.get(key)
            value = field.default if field is not None else None
        if value is not None:
            values[key] = value
    return key_element(values) if values else None


UNOWNED = frozenset(("apiVersion", "kind"))
UNOWNED_METADATA = frozenset(
    (
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
)


class Changes(NamedTuple):
    """Fields that a write has set to a new value, and fields that it has removed."""

    written: Fields
    removed: Fields


def changes(old: Object, new: Object, shape: Shape) -> Changes:
    """Return the changes from `old` ({} before creation) to `new`, without fields that only the server sets."""
    written: Fields = {}
    removed: Fields = {}
    blank = _blank(shape)
    for name, field in _fields(shape, old, new):
        before, after = old.get(name), new.get(name)
        if before != after:
            if name in blank:
                before, after = _bare(name, before, blank[name]), _bare(name, after, blank[name])
            _note(f"f:{name}", before, after, field, written, removed)
    return Changes(written, removed)


def _blank(shape: Shape) -> Object:
    """Return the object before its creation, which is shared: typed kinds have some fields that are never absent."""
    return shape.nothing if shape.present else NOTHING


def fields_of_new(new: Object, shape: Shape) -> Fields:
    """Return the fields of a new object that differ from those of an object with nothing set."""
    kinds, other, blank = shape.fields, shape.item, _blank(shape)
    written: Fields = {}
    for name in sorted(new):
        field = kinds.get(name, other)
        if field is not None and name not in UNOWNED:
            part = _bare(name, new[name], {}) if name == "metadata" else new[name]
            _note_new(name, part, field, blank.get(name, _ABSENT), written)
    return written


def _note_new(name: str, part: Any, field: Shape, before: Any, written: Fields) -> None:
    """Record a field of a new object; a struct that is never absent is none itself, only its fields are."""
    if part == before:
        return
    if type(before) is not dict or type(part) is not dict or field.leaf:
        tree = _new_value(part, field)
        if before is None:  # never absent, only empty
            tree.pop(SELF, None)
        written[f"f:{name}"] = tree
        return
    kinds, other, below = field.fields, field.item, dict[str, Any]()
    for key, value in part.items():
        kind = kinds.get(key, other)
        if kind is not None:
            _note_new(key, value, kind, before.get(key, _ABSENT), below)
    if below:
        written[f"f:{name}"] = below


NOTHING: Object = {"metadata": {}}
_ABSENT = object()


def owned(config: Object, shape: Shape) -> Fields:
    """Return the fields of an applied configuration."""
    fields: Fields = {}
    for name, field in _fields(shape, config):
        value = config.get(name)
        if value is not None:
            tree = members(_bare(name, value, {}), field)
            if tree or name != "metadata":  # an empty struct is owned itself; all of metadata may be the server's
                fields[f"f:{name}"] = tree
    return fields


def members(value: Any, shape: Shape, inner: bool = False) -> Fields:
    """Return every field of a value. List elements count as fields themselves, with `inner` structs and maps, too."""
    below = parts(value, shape)
    if below is None:
        return {}
    tree = {element: members(part, kind, inner) for element, (part, kind) in below.items()}
    for element, node in tree.items():
        if node and SELF not in node and (inner or element[0] != "f" or shape.form != STRUCT):
            tree[element] = {SELF: {}, **node}
    return tree


def _fields(shape: Shape, *objects: Object) -> Iterable[tuple[str, Shape]]:
    """Return the top-level fields of the objects that their schema knows or preserves."""
    kinds, other = shape.fields, shape.item
    fields = []
    for name in sorted(set().union(*objects)):
        field = kinds.get(name, other)
        if field is not None and name not in UNOWNED:
            fields.append((name, field))
    return fields


def _bare(name: str, value: Any, blank: Any) -> Any:
    """Return a top-level field that is always present; of metadata, only fields that clients set."""
    if value is None:
        return blank
    if name == "metadata" and isinstance(value, dict):
        if UNOWNED_METADATA.issuperset(value):
            return {}
        return {key: part for key, part in value.items() if key not in UNOWNED_METADATA}
    return value


def _note(element: str, old: Any, new: Any, shape: Shape, written: Fields, removed: Fields) -> None:
    """Record the difference of one field under its element."""
    if old == new:
        return
    if old is None:
        written[element] = _new_value(new, shape)
        return
    before, after = parts(old, shape), parts(new, shape)
    if (before is None and old) or (after is None and new) or (before is None and after is None):
        (removed if new is None else written)[element] = {}
        return
    sub_written: Fields = {}
    sub_removed: Fields = {}
    before, after = before or {}, after or {}
    for part in [part for part, (value, _) in after.items() if value is None and part in before]:
        if before[part][0] is not None:  # a typed field is null, not removed
            sub_written[part] = {}
        del after[part], before[part]
    for part, (value, kind) in after.items():
        was = before.get(part)
        _note(part, None if was is None else was[0], value, kind, sub_written, sub_removed)
        if was is not None and was[0] is None and part in sub_written:  # never absent, only empty
            sub_written[part].pop(SELF, None)
    for part, (value, kind) in before.items():
        if part not in after:
            sub_removed[part] = _whole(value, kind)
    if new is None:
        removed[element] = {SELF: {}, **sub_removed}
        return
    if sub_written:
        written[element] = sub_written
    if sub_removed:
        removed[element] = sub_removed


def _new_value(value: Any, shape: Shape) -> Fields:
    """Return all fields of a new value: its parts, without building their dict for structs and maps."""
    if type(value) is not dict or not value or shape.leaf or shape.form == LIST:
        below = parts(value, shape)
        return {} if below is None else {SELF: {}, **{at: _new_value(part, kind) for at, (part, kind) in below.items()}}
    tree: Fields = {SELF: {}}
    kinds, other = shape.fields, shape.item
    for key, part in value.items():
        kind = kinds.get(key, other)
        if kind is not None:
            tree[f"f:{key}"] = {} if type(part) is str else _new_value(part, kind)
    return tree


def _whole(value: Any, shape: Shape) -> Fields:
    tree = members(value, shape, inner=True)
    return {SELF: {}, **tree} if tree else {}
