"""Estimate the maximum size of values from schema bounds and the request limit."""

from actors.apiserver.custom.rule.kind import LIMIT, Kind
from protocols.cel.sizes import ONE, Declared, Size

LEAST = {"bool": 4, "string": 2, "bytes": 2, "timestamp": 12, "duration": 2, "list": 2, "map": 2, "object": 2}
"""Bytes of the smallest JSON value of a type; 1 for others."""


def size_of(kind: Kind, cap: int = LIMIT) -> Size:
    """Return the maximum size; the whole value takes at most `cap` bytes."""
    if kind.form in ("string", "bytes", "dyn"):
        length = min(cap, kind.most if kind.most is not None else cap)
        return Size(length, length)
    if kind.form == "object":
        return _object(kind, cap)
    if kind.item is None:
        return ONE
    length = max_count(kind, cap)
    item = size_of(kind.item, cap)
    return Declared(length, min(cap, length + length * item.deep), item)


def max_count(kind: Kind, cap: int = LIMIT) -> int:
    """Return the maximum number of items or entries."""
    least = LEAST.get(kind.item.form, 1) + 1 if kind.item is not None else 1
    fitting = cap // (least + (3 if kind.form == "map" else 0))
    return min(fitting, kind.most) if kind.most is not None else fitting


def _object(kind: Kind, cap: int) -> Size:
    fields = {name: size_of(each, cap) for name, each in kind.fields.values()}
    deep = min(cap, len(fields) + sum(size.deep for size in fields.values()))
    return Declared(len(fields), deep, None, fields)
