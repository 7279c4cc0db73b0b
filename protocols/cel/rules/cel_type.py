"""CEL types of values of custom resources, and the largest size that a value of a type can have."""

from collections.abc import Mapping

import msgspec

from protocols.cel.costs.sizes import ONE, Declared, Size

LIMIT = 3 * 1024 * 1024
"""Bytes of the largest request, and so of the largest value."""


class CelType(msgspec.Struct, frozen=True):
    """The CEL type of a schema, or of a part of one."""

    form: str
    """One of bool, int, double, string, bytes, timestamp, duration, dyn, list, map, object."""
    most: int | None = None
    """Maximum number of characters, items or entries."""
    item: "CelType | None" = None
    fields: Mapping[str, tuple[str, "CelType"]] = msgspec.field(default_factory=dict)
    """Fields of an object by name: the escaped CEL name and the type."""


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
