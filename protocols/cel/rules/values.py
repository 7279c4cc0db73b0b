"""CEL types of values of custom resources, their largest sizes, and values as rules on such types expect them."""

import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from datetime import time as clock_time
from math import inf
from typing import Any

import msgspec

from protocols.cel.costs.sizes import ONE, Entries, Given, Size
from protocols.cel.functions.conversions import read_timestamp
from protocols.cel.functions.values import Duration, MapList, SetList, Timestamp
from protocols.cel.text.source import EvaluationError
from protocols.kube.formats import duration_nanos

LIMIT = 3 * 1024 * 1024
"""Bytes of the largest request, and so of the largest value."""


LEAST = {"bool": 4, "string": 2, "bytes": 2, "timestamp": 12, "duration": 2, "list": 2, "map": 2, "object": 2}
"""Bytes of the smallest JSON value of a type; 1 for others."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CelType(msgspec.Struct, frozen=True):
    """The CEL type of a schema, or of a part of one."""

    form: str
    """One of bool, int, double, string, bytes, timestamp, duration, dyn, list, map, object."""
    most: int | None = None
    """Maximum number of characters, items or entries."""
    item: "CelType | None" = None
    fields: Mapping[str, tuple[str, "CelType"]] = msgspec.field(default_factory=dict)
    """Fields of an object by name: the escaped CEL name and the type."""
    keys: tuple[str, ...] | None = None
    """Escaped fields that identify the items of a list; of a set none; None for lists whose order matters."""


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
    kind = Entries if cel_type.form == "map" else Given
    return kind(length, min(cap, length + length * item.deep), item)


def max_count(cel_type: CelType, cap: int = LIMIT) -> int:
    """Return the maximum number of items or entries."""
    least = LEAST.get(cel_type.item.form, 1) + 1 if cel_type.item is not None else 1
    fitting = cap // (least + (3 if cel_type.form == "map" else 0))
    return min(fitting, cel_type.most) if cel_type.most is not None else fitting


def _object_size(cel_type: CelType, cap: int) -> Size:
    fields = {name: size_of(field_type, cap) for name, field_type in cel_type.fields.values()}
    deep = min(cap, len(fields) + sum(size.deep for size in fields.values()))
    return Given(len(fields), deep, None, fields)


def converted(value: Any, cel_type: CelType) -> Any:
    """Convert one value. One of another type or format remains as it is, so rules on its type fail.

    An update keeps values that were stored under an older schema.
    """
    if type(value) not in _JSON.get(cel_type.form, ()):
        return value
    if cel_type.form in _TEXTS:
        return _read(value, cel_type.form)
    if cel_type.form == "object":
        return {  # a field that is null is absent, as upstream
            escaped_name: converted(value[name], part_type)
            for name, (escaped_name, part_type) in cel_type.fields.items()
            if value.get(name) is not None
        }
    if cel_type.item is not None:
        item = cel_type.item
        if cel_type.form == "list":
            return _list([converted(part, item) for part in value], cel_type.keys)
        return {name: converted(part_type, item) for name, part_type in value.items()}
    if cel_type.form == "double":
        return _double(value)
    return int(value) if type(value) is int or value.is_integer() else value


def _list(items: list[Any], keys: tuple[str, ...] | None) -> list[Any]:
    if keys is None:
        return items
    return MapList(items, keys) if keys else SetList(items)


def _double(value: int | float) -> float:
    """Convert to float; integers out of range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _read(value: str, form: str) -> Any:
    try:
        return _TEXTS[form](value)
    except (ValueError, OverflowError, binascii.Error):
        return value


def _timestamp(value: str) -> Timestamp:
    with suppress(EvaluationError):  # datetime has no nanoseconds
        return read_timestamp(value)
    moment = (
        datetime.fromisoformat(value) if len(value) > 10 else datetime.combine(date.fromisoformat(value), clock_time())
    )
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return Timestamp(((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000)


def _duration(value: str) -> Duration:
    return Duration(duration_nanos(value))


_TEXTS: dict[str, Callable[[str], Any]] = {"bytes": base64.b64decode, "timestamp": _timestamp, "duration": _duration}
_JSON: Mapping[str, tuple[type, ...]] = {
    "int": (int, float), "double": (int, float), "list": (list,), "map": (dict,), "object": (dict,),
    **dict.fromkeys(_TEXTS, (str,)),
}  # fmt: skip
"""Types of the JSON values that are converted."""
