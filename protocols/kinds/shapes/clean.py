"""Check the fields of an object against its schema, remove unknown ones, and write values as kube-apiserver does.

Wrong types are errors in the words of Go's decoder, which clients know. Nulls are read as that decoder reads them, so
that later code meets none: a field with null is absent, an element of a list or map with null is empty.

This runs on every write: the common case costs one lookup and one comparison of types for each field.
"""

import binascii
import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from protocols.kinds.shapes import shape as forms
from protocols.kinds.shapes.shape import ANY, BYTES, LIST, MAP, QUANTITY, STRUCT, TEXT, Shape
from protocols.kube.errors import KubeError, QuantityInvalid
from protocols.kube.quantity import is_quantity, parse_quantity


class WrongType(KubeError):
    """Raised when a value has another type than its field."""


NAMES = {
    forms.TEXT: "string",
    forms.BOOL: "bool",
    forms.INT32: "int32",
    forms.INT64: "int64",
    forms.BYTES: "[]uint8",
    forms.TIME: "v1.Time",
    forms.MICROTIME: "v1.MicroTime",
    QUANTITY: "resource.Quantity",
    forms.INT_OR_STRING: "intstr.IntOrString",
    forms.ANY: "runtime.RawExtension",
    forms.JSON: "v1.JSON",
}


def _go_type(shape: Shape) -> str:
    if shape.form == forms.LIST and shape.item is not None:
        return f"[]{_go_type(shape.item)}"
    if shape.form == forms.MAP and shape.item is not None:
        return f"map[string]{_go_type(shape.item)}"
    if shape.form == forms.STRUCT:
        return ".".join(shape.name.split(".")[-2:])
    return NAMES[shape.form]


def _json_type(value: Any, wanted: Shape) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}" if wanted.form in (forms.INT32, forms.INT64) else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


MAX_UNKNOWN = 100
"""Unknown fields of one object that are reported; all are removed."""
MAP_KEY = "\0"
"""Marks a step of a path as the key of a map, which upstream's type errors omit."""
EXACT: dict[str, type[Any]] = {
    TEXT: str,
    forms.BOOL: bool,
    BYTES: str,
    ANY: dict,
    STRUCT: dict,
    MAP: dict,
    LIST: list,
}
PLAIN = (TEXT,)
CANONICAL = (QUANTITY, forms.TIME, forms.MICROTIME)
"""Values with several spellings, of which one is stored."""
DROPPED = (TEXT, forms.BOOL, forms.INT32, forms.INT64, BYTES, MAP, LIST)
"""Optional fields of these types lose a zero value."""
EMPTY: dict[str, Callable[[], Any]] = {
    **EXACT,
    forms.INT32: int,
    forms.INT64: int,
    forms.INT_OR_STRING: int,
    QUANTITY: lambda: "0",
}
RANGES = {forms.INT32: 2**31, forms.INT64: 2**63}
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
WHOLE, WIDEST = re.compile(r"[+-]?[1-9]\d*", re.ASCII), 18
"""Whole numbers without a suffix, and digits of those that certainly fit 64 bits."""
MICRO_LENGTH = len("2006-01-02T15:04:05.000000")
LAYOUTS = {forms.TIME: "2006-01-02T15:04:05Z07:00", forms.MICROTIME: "2006-01-02T15:04:05.000000Z07:00"}
Path = tuple["Path", str | int] | tuple[()]
"""The path of the parent and a step: an index in a list, else a name."""


class _Walk:
    """One pass over an object: its unknown fields, and True if zero values become as Go's encoder writes them."""

    __slots__ = ("typed", "unknown")

    def __init__(self, typed: bool) -> None:
        self.typed = typed
        self.unknown: list[str] = []


def clean(obj: dict[str, Any], shape: Shape, typed: bool = True) -> list[str]:
    """Remove fields that `shape` does not have, and return their paths. Raises WrongType.

    With `typed`, the object is left as kube-apiserver stores it: fields that are always present are added, other zeros
    removed, quantities and times canonical. An applied configuration keeps its author's words instead.
    """
    walk = _Walk(typed)
    _struct(obj, shape, (), walk)
    return walk.unknown


def clean_part(value: Any, owner: Shape, field: str) -> list[str]:
    """Clean one field of a struct."""
    walk = _Walk(True)
    _value(value, owner.fields[field], ((), field), owner, walk)
    return walk.unknown


def clean_field(obj: dict[str, Any], shape: Shape, field: str) -> list[str]:
    """Clean one top-level field of an object in place; an unknown or empty one is removed."""
    walk, kind, value = _Walk(True), shape.fields.get(field), obj[field]
    if kind is None or not value:
        _odd_field(obj, field, shape, (), walk)
    else:
        obj[field] = _word(value, kind, ((), field), shape, walk)
    return walk.unknown


def complete(obj: dict[str, Any], shape: Shape | None) -> None:
    """Add the missing top-level fields that an object of this kind always has."""
    if shape is not None:
        for key, make in shape.always:
            if key not in obj:
                obj[key] = make()


def _struct(obj: dict[str, Any], shape: Shape, path: Path, walk: _Walk) -> None:
    fields = shape.fields
    odd = []
    for key, value in obj.items():
        field = fields.get(key)
        if field is None or not value:
            odd.append(key)
            continue
        form, kind = field.form, type(value)
        if kind is str:
            if form != TEXT:
                obj[key] = _word(value, field, (path, key), shape, walk)
        elif kind is dict and form == STRUCT:
            _struct(value, field, (path, key), walk)
        elif kind is list and form == LIST:
            _list(value, field, (path, key), shape, walk)
        elif form == QUANTITY:
            obj[key] = _word(value, field, (path, key), shape, walk)
        else:
            _value(value, field, (path, key), shape, walk)
    for key in odd:
        _odd_field(obj, key, shape, path, walk)
    if walk.typed:
        for key, make in shape.always:
            if key not in obj:
                obj[key] = make()


def _odd_field(obj: dict[str, Any], key: str, shape: Shape, path: Path, walk: _Walk) -> None:
    """Remove an unknown field, a null, or a zero that means the same as an absent field."""
    field, value = shape.fields.get(key), obj[key]
    if field is None:
        del obj[key]
        if len(walk.unknown) < MAX_UNKNOWN:
            walk.unknown.append(shown((path, key)))
    elif value is None:
        if field.form != forms.JSON:
            del obj[key]
    else:
        _value(value, field, (path, key), shape, walk)
        if walk.typed and field.form == QUANTITY:
            obj[key] = canonical_quantity(value)
        elif walk.typed and field.form in DROPPED and key not in shape.kept and key not in shape.present:
            del obj[key]


def _value(value: Any, shape: Shape, path: Path, owner: Shape, walk: _Walk) -> None:
    """Clean a value. `owner` is the struct that contains it."""
    if value is None:
        return
    form = shape.form
    wanted = EXACT.get(form)
    if wanted is None:
        _scalar(value, form, path, owner)
    elif type(value) is not wanted:
        if form != ANY:
            raise _wrong(value, shape, path, owner)
    elif form == BYTES:
        _check_base64(value, path)
    elif form == STRUCT:
        _struct(value, shape, path, walk)
    elif form == MAP:
        _map(value, shape, path, owner, walk)
    elif form == LIST:
        _list(value, shape, path, owner, walk)


def _map(value: dict[str, Any], shape: Shape, path: Path, owner: Shape, walk: _Walk) -> None:
    item = shape.item
    assert item is not None
    plain, words = item.form in PLAIN, item.form in CANONICAL
    for key, part in value.items():
        if part is None:
            part = value[key] = _empty(item)
        if words:
            value[key] = _word(part, item, (path, MAP_KEY + key), owner, walk)
        elif not plain or type(part) is not str:
            _value(part, item, (path, MAP_KEY + key), owner, walk)


def _list(value: list[Any], shape: Shape, path: Path, owner: Shape, walk: _Walk) -> None:
    item = shape.item
    assert item is not None
    plain, struct, words = item.form in PLAIN, item.form == STRUCT, item.form in CANONICAL
    for index, part in enumerate(value):
        if part is None:
            part = value[index] = _empty(item)
        if struct and type(part) is dict:
            _struct(part, item, (path, index), walk)
        elif words:
            value[index] = _word(part, item, (path, index), owner, walk)
        elif not plain or type(part) is not str:
            _value(part, item, (path, index), owner, walk)


def _word(value: Any, shape: Shape, path: Path, owner: Shape, walk: _Walk) -> Any:
    """Check a value that has several spellings, and return it as it is stored."""
    form = shape.form
    if not walk.typed or form not in CANONICAL or value is None:
        _value(value, shape, path, owner, walk)
        return value
    if form == QUANTITY and type(value) is str:
        try:
            return canonical_quantity(value)
        except QuantityInvalid:
            pass
    _scalar(value, form, path, owner)
    return canonical_quantity(value) if form == QUANTITY else canonical_time(value, form)


@functools.lru_cache(maxsize=4096)
def canonical_quantity(value: str | int | float) -> str:
    """Return a quantity as upstream writes it: an explicit plus and a number beyond 64 bits stay as they are."""
    quantity = parse_quantity(value)
    if isinstance(value, str) and WHOLE.fullmatch(value) and (value[0] == "+" or len(value) > WIDEST):
        return value
    return str(quantity)


def canonical_time(text: str, form: str) -> str:
    """Return a time in UTC: in whole seconds, or with six digits of a micro time."""
    micro = form == forms.MICROTIME
    if len(text) == (27 if micro else 20) and text[-1] == "Z" and text[10] == "T":
        return text
    try:
        moment = datetime.fromisoformat(text.upper().replace(",", ".")).astimezone(UTC)
    except (ValueError, OverflowError):  # a leap second or a day that does not exist
        return text
    # strftime writes years before 1000 without leading zeros
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds") + "Z"


def _empty(item: Shape) -> Any:
    """Return the value of an element that is null. It stays null if its type has no empty value in JSON."""
    make = EMPTY.get(item.form)
    return None if make is None else make()


def _scalar(value: Any, form: str, path: Path, owner: Shape) -> None:
    if form == forms.JSON:
        return
    kind, limit = type(value), RANGES.get(form)
    if limit is not None:
        fits = kind is int and -limit <= value < limit
    elif form == forms.INT_OR_STRING:
        fits = kind is str or (kind is int and -(2**31) <= value < 2**31)
    elif form == QUANTITY:
        if kind in (dict, list, bool) or (kind is str and not is_quantity(value)):
            raise WrongType(f"{QUANTITY_TEXT}: {_place(value, path)}")
        return
    else:
        fits = kind is str
        if fits and not _is_time(value, form):
            raise WrongType(f'parsing time "{value}" as "{LAYOUTS[form]}": cannot parse it: {_place(value, path)}')
    if not fits:
        raise _wrong(value, Shape(form), path, owner)


def _is_time(text: str, form: str) -> bool:
    """Return True for a time of RFC 3339; the fraction of a micro time has six digits."""
    if not TIME.fullmatch(text) or (form == forms.MICROTIME and not _has_micros(text)):
        return False
    try:
        datetime.fromisoformat(text.upper().replace(",", "."))
    except ValueError:
        return False
    return True


def _has_micros(text: str) -> bool:
    return text[19] == "." and text[MICRO_LENGTH : MICRO_LENGTH + 1] in ("Z", "z", "+", "-")


def _check_base64(value: str, path: Path) -> None:
    try:
        binascii.a2b_base64(value.replace("\r", "").replace("\n", "").encode(), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise WrongType(f"illegal base64 data: {_place(value, path)}") from None


def _wrong(value: Any, shape: Shape, path: Path, owner: Shape) -> WrongType:
    """Return the error in the words of Go's decoder."""
    steps = [step for step in _steps(path) if not step.startswith(("[", MAP_KEY))]
    field = f"{owner.name.rpartition('.')[2]}.{'.'.join(steps)}"
    return WrongType(
        f"json: cannot unmarshal {_json_type(value, shape)} into Go struct field {field} of type {_go_type(shape)}"
    )


def _steps(path: Path) -> list[str]:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else step)
    return steps[::-1]


def _place(value: Any, path: Path) -> str:
    """Return path and value, which upstream's errors lack."""
    return f"{shown(path)}: {value!r:.64}"


def shown(path: Path) -> str:
    """Format a path as `spec.containers[0].image`."""
    text = ""
    for step in _steps(path):
        text += step if step.startswith("[") else f".{step.removeprefix(MAP_KEY)}"
    return text.removeprefix(".")
