"""How large the values of a kind can be: the bounds of the schema, and that no request is larger than LIMIT."""

from actors.apiserver.custom.rule.kind import LIMIT, Kind
from protocols.cel.sizes import ONE, Declared, Size

LEAST = {"bool": 4, "string": 2, "bytes": 2, "timestamp": 12, "duration": 2, "list": 2, "map": 2, "object": 2}
"""Bytes of the smallest value in JSON; one for others."""


def size_of(kind: Kind, cap: int = LIMIT) -> Size:
    """`cap`: bytes of the whole value."""
    if kind.form in ("string", "bytes", "dyn"):
        length = min(cap, kind.most if kind.most is not None else cap)
        return Size(length, length)
    if kind.form == "object":
        return _object(kind, cap)
    if kind.item is None:
        return ONE
    length = many(kind, cap)
    item = size_of(kind.item, cap)
    return Declared(length, min(cap, length + length * item.deep), item)


def many(kind: Kind, cap: int = LIMIT) -> int:
    """Items or entries, at most."""
    least = LEAST.get(kind.item.form, 1) + 1 if kind.item is not None else 1
    fitting = cap // (least + (3 if kind.form == "map" else 0))
    return min(fitting, kind.most) if kind.most is not None else fitting


def _object(kind: Kind, cap: int) -> Size:
    fields = {said: size_of(each, cap) for said, each in kind.fields.values()}
    deep = min(cap, len(fields) + sum(size.deep for size in fields.values()))
    return Declared(len(fields), deep, None, fields)
