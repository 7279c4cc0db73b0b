"""Check the fields of an object against its schema, and remove unknown ones.

Wrong types are errors in the words of Go's decoder, which clients know. Nulls are read as that decoder reads them, so
that later code meets none: a field with null is absent, an element of a list or map with null is empty.

This runs on every write: the common case costs one lookup and one comparison of types for each field.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

from actors.apiserver.api.schemas import shape as forms
from actors.apiserver.api.schemas.shape import ANY, BYTES, LIST, MAP, STRUCT, TEXT, Shape
from protocols.errors import NodeplaneError
from protocols.kube.quantity import is_quantity


class WrongType(NodeplaneError):
    """Raised when a value has another type than its field."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


NAMES = {
    forms.TEXT: "string",
    forms.BOOL: "bool",
    forms.INT32: "int32",
    forms.INT64: "int64",
    forms.BYTES: "[]uint8",
    forms.TIME: "v1.Time",
    forms.MICROTIME: "v1.MicroTime",
    forms.QUANTITY: "resource.Quantity",
    forms.INT_OR_STRING: "intstr.IntOrString",
    forms.ANY: "runtime.RawExtension",
    forms.JSON: "v1.JSON",
}


def go_type(shape: Shape) -> str:
    if shape.form == forms.LIST and shape.item is not None:
        return f"[]{go_type(shape.item)}"
    if shape.form == forms.MAP and shape.item is not None:
        return f"map[string]{go_type(shape.item)}"
    if shape.form == forms.STRUCT:
        return ".".join(shape.name.split(".")[-2:])
    return NAMES[shape.form]


def json_type(value: Any, wanted: Shape) -> str:
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
PLAIN = (TEXT, BYTES)
EMPTY: dict[str, Callable[[], Any]] = {
    **EXACT,
    forms.INT32: int,
    forms.INT64: int,
    forms.INT_OR_STRING: int,
    forms.QUANTITY: lambda: "0",
}
RANGES = {forms.INT32: 2**31, forms.INT64: 2**63}
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
LAYOUTS = {forms.TIME: "2006-01-02T15:04:05Z07:00", forms.MICROTIME: "2006-01-02T15:04:05.000000Z07:00"}
Path = tuple["Path", str | int] | tuple[()]
"""The path of the parent and a step: an index in a list, else a name."""


def clean(obj: dict[str, Any], shape: Shape) -> list[str]:
    """Remove fields that `shape` does not have, and return their paths. Raises WrongType."""
    unknown: list[str] = []
    _struct(obj, shape, (), unknown)
    return unknown


def clean_part(value: Any, owner: Shape, field: str) -> list[str]:
    """Clean one field of a struct."""
    unknown: list[str] = []
    _value(value, owner.fields[field], ((), field), owner, unknown)
    return unknown


def _struct(obj: dict[str, Any], shape: Shape, path: Path, unknown: list[str]) -> None:
    fields = shape.fields
    unknown_keys, absent = [], []
    for key, value in obj.items():
        field = fields.get(key)
        if field is None:
            unknown_keys.append(key)
        elif value is None:
            if field.form != forms.JSON:
                absent.append(key)
        elif type(value) is not str or field.form != TEXT:
            _value(value, field, (path, key), shape, unknown)
    for key in unknown_keys:
        del obj[key]
        if len(unknown) < MAX_UNKNOWN:
            unknown.append(shown((path, key)))
    for key in absent:
        del obj[key]


def _value(value: Any, shape: Shape, path: Path, owner: Shape, unknown: list[str]) -> None:
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
    elif form == STRUCT:
        _struct(value, shape, path, unknown)
    elif form == MAP:
        _map(value, shape, path, owner, unknown)
    elif form == LIST:
        _list(value, shape, path, owner, unknown)


def _map(value: dict[str, Any], shape: Shape, path: Path, owner: Shape, unknown: list[str]) -> None:
    item = shape.item
    assert item is not None
    plain = item.form in PLAIN
    for key, part in value.items():
        if part is None:
            value[key] = _empty(item)
        elif not plain or type(part) is not str:
            _value(part, item, (path, MAP_KEY + key), owner, unknown)


def _list(value: list[Any], shape: Shape, path: Path, owner: Shape, unknown: list[str]) -> None:
    item = shape.item
    assert item is not None
    plain = item.form in PLAIN
    for index, part in enumerate(value):
        if part is None:
            value[index] = _empty(item)
        elif not plain or type(part) is not str:
            _value(part, item, (path, index), owner, unknown)


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
    elif form == forms.QUANTITY:
        if kind in (dict, list, bool) or (kind is str and not is_quantity(value)):
            raise WrongType(f"{QUANTITY_TEXT}: {_place(value, path)}")
        return
    else:
        fits = kind is str
        if fits and not TIME.fullmatch(value):
            raise WrongType(f'parsing time "{value}" as "{LAYOUTS[form]}": cannot parse it: {_place(value, path)}')
    if not fits:
        raise _wrong(value, Shape(form), path, owner)


def _wrong(value: Any, shape: Shape, path: Path, owner: Shape) -> WrongType:
    """Return the error in the words of Go's decoder."""
    steps = [step for step in _steps(path) if not step.startswith(("[", MAP_KEY))]
    field = f"{owner.name.rpartition('.')[2]}.{'.'.join(steps)}"
    return WrongType(
        f"json: cannot unmarshal {json_type(value, shape)} into Go struct field {field} of type {go_type(shape)}"
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
