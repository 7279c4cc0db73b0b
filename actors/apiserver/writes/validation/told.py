"""How Go names what JSON holds and what a field takes: the words of its decoding errors."""

from typing import Any

from actors.apiserver.api.schemas import shape as forms
from actors.apiserver.api.schemas.shape import Shape

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
