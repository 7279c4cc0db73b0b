"""Shapes as OpenAPI component schemas."""

from collections.abc import Iterable

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.schemas.descriptions import description
from actors.apiserver.api.schemas.shape import LIST, MAP, STRUCT, Shape

MACHINERY = "io.k8s.apimachinery.pkg"
NAMED: dict[str, tuple[str, Obj]] = {
    "time": (f"{MACHINERY}.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "microtime": (f"{MACHINERY}.apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
    "quantity": (f"{MACHINERY}.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "int-or-string": (
        f"{MACHINERY}.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "any": (f"{MACHINERY}.runtime.RawExtension", {"type": "object"}),
}
INLINE: dict[str, Obj] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bytes": {"type": "string", "format": "byte"},
    "json": {"x-kubernetes-preserve-unknown-fields": True},
}


def components(roots: Iterable[Shape]) -> dict[str, Obj]:
    """Schemas of these structs and of all they refer to, by full name."""
    waiting, found = list(roots), {}
    while waiting:
        struct = waiting.pop()
        if struct.name not in found:
            found[struct.name] = _component(struct)
            waiting += [inner for field in struct.fields.values() for inner in _structs(field)]
    return {**dict(NAMED.values()), **found}


def reference(name: str) -> Obj:
    return {"$ref": f"#/components/schemas/{name}"}


def _structs(shape: Shape) -> list[Shape]:
    while shape.item is not None:
        shape = shape.item
    return [shape] if shape.form == STRUCT else []


def _component(struct: Shape) -> Obj:
    made: Obj = {"type": "object", "properties": {name: _field(struct, name) for name in struct.fields}}
    if struct.required:
        made["required"] = list(struct.required)
    if struct.atomic:
        made["x-kubernetes-map-type"] = "atomic"
    text = description(struct.name)
    if text:
        made["description"] = text
    return made


def _field(struct: Shape, name: str) -> Obj:
    schema, text = _schema(struct.fields[name]), description(struct.name, name)
    if "$ref" in schema:
        schema = {"allOf": [schema]}
    return {**schema, "description": text} if text else schema


def _schema(shape: Shape) -> Obj:
    if shape.form == STRUCT:
        return reference(shape.name)
    if shape.form == LIST:
        return _list(shape)
    if shape.form == MAP:
        made = {"type": "object", "additionalProperties": _schema(shape.item) if shape.item else True}
        return {**made, "x-kubernetes-map-type": "atomic"} if shape.atomic else made
    if shape.form in NAMED:
        return reference(NAMED[shape.form][0])
    return {**INLINE[shape.form], "default": shape.default} if shape.default else INLINE[shape.form]


def _list(shape: Shape) -> Obj:
    kind = "map" if shape.keys else "set" if shape.scalar_set else "atomic"
    made: Obj = {"type": "array", "items": _schema(shape.item) if shape.item else {}, "x-kubernetes-list-type": kind}
    if shape.keys:
        made["x-kubernetes-list-map-keys"] = list(shape.keys)
    strategy, key = shape.patch
    if strategy:
        made["x-kubernetes-patch-strategy"] = strategy
    if key:
        made["x-kubernetes-patch-merge-key"] = key
    return made
