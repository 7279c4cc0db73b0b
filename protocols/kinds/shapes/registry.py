"""Shapes of kinds by group and version, made of the facts of protocols/kinds at the first use."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from protocols.kinds.fields import Field, Type, inlined, package_of, packages, resolve, types_of
from protocols.kinds.shapes.shape import (
    ANY,
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    JSON,
    LIST,
    MAP,
    QUANTITY,
    SCALARS,
    STRUCT,
    TEXT,
    Shape,
)

ZERO: dict[str, Callable[[], Any]] = {TEXT: str, BOOL: bool, INT32: int, INT64: int, INT_OR_STRING: int}
PLAIN = {form: Shape(form) for form in (*SCALARS, ANY, JSON)}
FindStruct = Callable[[str], Shape]
"""Return the struct of a name in the type of a field."""


def _empty_struct(each: Type) -> Shape:
    shape = Shape(STRUCT, name=full_name(each.package, each.name), atomic=each.is_atomic)
    shape.gvk = each.is_kind
    return shape


def _fill(struct: Shape, fields: Sequence[Field], lookup: FindStruct) -> None:
    if struct.gvk:
        struct.fields.update(apiVersion=PLAIN[TEXT], kind=PLAIN[TEXT])
    struct.fields.update((field.name, _shape_of(field.type, lookup)) for field in sorted(fields, key=lambda f: f.name))
    struct.required = tuple(sorted(field.name for field in fields if field.is_required))


def mark_zeros(struct: Shape, fields: Sequence[Field]) -> None:
    """Set which fields are always present and which keep a zero. All structs are filled."""
    struct.present = {field.name: _maker(struct, field) for field in fields if field.is_present}
    struct.kept, struct.always = frozenset(f.name for f in fields if f.keeps_zero), tuple(struct.present.items())


def _maker(struct: Shape, field: Field) -> Callable[[], Any]:
    kind = struct.fields[field.name]
    if field.is_null:
        return _null
    return kind.blank if kind.form == STRUCT else _zero(kind.form)


def _zero(form: str) -> Callable[[], Any]:
    return (lambda: "0") if form == QUANTITY else ZERO.get(form, _null)


def _null() -> None:
    return None


def _shape_of(kind: str, lookup: FindStruct) -> Shape:
    if kind[0] == "[":
        return _list(kind, lookup)
    if kind[0] == "{":
        inner, _, whole = kind[1:].rpartition("}")
        return Shape(MAP, item=_shape_of(inner, lookup), atomic=bool(whole))
    if kind in PLAIN:
        return PLAIN[kind]
    form, slash, default = kind.partition("/")
    if slash:
        shape = Shape(form)
        shape.default = default
        return shape
    return lookup(kind)


def _list(kind: str, lookup: FindStruct) -> Shape:
    inner, _, rest = kind[1:].partition("]")
    keyed, _, patch = rest.partition("^")
    keyed = keyed.removeprefix("=")
    shape = Shape(LIST, item=_shape_of(inner, lookup))
    shape.scalar_set = keyed == "set"
    shape.keys = tuple(keyed.split(",")) if keyed and not shape.scalar_set else ()
    shape.patch = _patch(patch, shape)
    return shape


def _patch(text: str, shape: Shape) -> tuple[str, str]:
    strategy, _, key = text.partition(",")
    key = key or (shape.keys[0] if shape.keys else "")
    if strategy == "none":
        return "", ""
    if strategy == "retain":
        return "merge,retainKeys", key
    return ("merge", key) if strategy or shape.keys or shape.scalar_set else ("", "")


API = "io.k8s.api."
META = "io.k8s.apimachinery.pkg.apis.meta.v1"


def full_name(package: str, name: str) -> str:
    """Return the name of an OpenAPI component."""
    return f"{META if package == 'meta.v1' else API + package}.{name}"


class Registry:
    """Shapes of all structs, by their full names."""

    def __init__(self) -> None:
        known = [shape for package in packages() for shape in types_of(package).values()]
        self.structs = {full_name(shape.package, shape.name): _empty_struct(shape) for shape in known}
        bodies = [(self.structs[full_name(shape.package, shape.name)], shape, tuple(inlined(shape))) for shape in known]
        for struct, body, fields in bodies:
            _fill(struct, fields, functools.partial(self._lookup, body.package))
        for struct, _, fields in bodies:
            mark_zeros(struct, fields)
        for struct in self.structs.values():
            struct.nothing = struct.blank()

    def kind(self, group: str, version: str, kind: str) -> Shape | None:
        """Return the shape of a kind; None if it is unknown."""
        shape = self.structs.get(full_name(package_of(group, version), kind))
        return shape if shape is not None and shape.gvk else None

    def _lookup(self, package: str, name: str) -> Shape:
        if name.endswith("~"):
            return self._lookup(package, name[:-1]).granular()
        if name.endswith("^replace"):
            shape = self._lookup(package, name.removesuffix("^replace"))
            variant = shape.granular()
            variant.atomic, variant.patch = shape.atomic, ("replace", "")
            return variant
        if name.endswith("^retain"):
            variant = self._lookup(package, name.removesuffix("^retain")).granular()
            variant.patch = ("retainKeys", "")
            return variant
        return self.structs[full_name(*resolve(package, name))]


@functools.lru_cache(maxsize=1)
def registry() -> Registry:
    """Return the registry of the process; types are made when they are first asked for."""
    return Registry()


@functools.lru_cache(maxsize=64)
def kind_shape(group: str, version: str, kind: str) -> Shape | None:
    """Return the shape of a kind; None if facts/ do not have it."""
    return registry().kind(group, version, kind)
