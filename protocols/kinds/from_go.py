"""Facts of types as Go's declarations give them: names, numbers, keys of lists, and which zeros Go writes."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from protocols.kinds.fields import Field, Type, element_of
from protocols.kinds.go_source import GoField, GoStruct, SourceMissing, read_package

GO_TYPES = {
    "string": "str", "bool": "bool", "int32": "int32", "int64": "int64", "int": "int64", "float64": "json",
    "[]byte": "bytes", "resource.Quantity": "quantity", "intstr.IntOrString": "int-or-string",
    "runtime.RawExtension": "any", "types.UID": "str", "Time": "time", "MicroTime": "microtime", "FieldsV1": "any",
    "JSON": "json", "Verbs": "[str]",
}  # fmt: skip
META_TYPES = ("Time", "MicroTime", "FieldsV1")
SCALARS = ("str", "bool", "int32", "int64", "int-or-string")
"""A pointer to one of these parts a zero from nothing."""
STRUCTS = ("time", "microtime", "quantity", "int-or-string", "any")
"""Structs in Go, which writes them always."""


class Release:
    """Types of one release of Kubernetes, below a checkout of it. Raises SourceMissing."""

    def __init__(self, tree: Path) -> None:
        read_package(tree, "meta.v1")
        self.package = functools.cache(functools.partial(read_package, tree))

    def type_of(self, package: str, name: str) -> Type | None:
        """Return the facts of a type; None for one that the release does not have."""
        struct = self._structs(package).get(name)
        if struct is None:
            return None
        reader = _Reader(self, package)
        fields = sorted(reader.fields(name, struct), key=lambda field: field.number or 1 << 30)
        return Type(package, name, tuple(fields), is_atomic=struct.markers.get("structType") == ("atomic",))

    @functools.cache  # noqa: B019  # one release for the life of the program
    def keys_of_lists(self, package: str) -> frozenset[tuple[str, str]]:
        """Return the types of lists' elements, each with a field that is part of a list's key."""
        fields = (field for struct in self.package(package).structs.values() for field in struct.fields)
        return frozenset(
            (field.type.removeprefix("[]"), key) for field in fields for key in field.markers.get("listMapKey", ())
        )

    def needs(self, package: str, each: Type) -> Iterator[str]:
        """Return the names of the types of its package that fields have."""
        names = self._structs(package)
        for field in each.fields:
            if (inner := element_of(field.wire)) in names:
                yield inner

    def _structs(self, package: str) -> Mapping[str, GoStruct]:
        """Return the structs of a package; none of one that the release does not have."""
        try:
            return self.package(package).structs
        except SourceMissing:
            return {}


class _Form(msgspec.Struct, frozen=True):
    """A type in our notation, as of a Go type."""

    text: str
    wire: str
    is_struct: bool
    is_pointer: bool


class _Reader:
    def __init__(self, release: Release, package: str) -> None:
        self._release = release
        self._package = package

    def fields(self, owner: str, struct: GoStruct) -> Iterator[Field]:
        for field in struct.fields:
            name, *options = field.tags.get("json", "-").split(",")
            if name == "-" or field.type.rpartition(".")[2] == "TypeMeta":
                continue
            number = (field.tags.get("protobuf", ",0").split(","))[1]
            form = self._form(field.type, self._package)
            if not name:
                yield Field(int(number), _name_of_embedded(field), form.text, form.wire, is_inline=True)
            else:
                named = self._field(int(number), name, options, field, form)
                yield self._with_default(owner, named, field)

    def _with_default(self, owner: str, known: Field, field: GoField) -> Field:
        """The default of a list's key is known to whoever merges the list."""
        default = field.markers.get("default", ("",))[0]
        if not default or (owner, known.name) not in self._release.keys_of_lists(self._package):
            return known
        kind = f"{known.type}/{default}"
        return msgspec.structs.replace(known, type=kind, wire=kind)

    def _field(self, number: int, name: str, options: list[str], field: GoField, form: _Form) -> Field:
        omitted = "omitempty" in options or "omitzero" in options
        optional = "required" not in field.markers and ("optional" in field.markers or omitted)
        always = not omitted or (form.is_struct and not form.is_pointer and "omitzero" not in options)
        kind = f"{form.text}{_list_suffix(field, form)}"
        return Field(
            number, name, kind, kind if form.wire == form.text else form.wire,
            is_required=not optional, is_present=always, is_null=always and form.is_pointer,
            keeps_zero=omitted and form.is_pointer and form.text in SCALARS,
        )  # fmt: skip

    def _form(self, go_type: str, package: str) -> _Form:
        pointer = go_type.startswith("*")
        go_type = go_type.removeprefix("*")
        if known := self._known(go_type, package):
            return _Form(known, known, known in STRUCTS, pointer)
        if go_type.startswith("[]"):
            inner = self._form(go_type[2:], package)
            return _Form(f"[{inner.text}]", f"[{inner.wire}]", False, pointer)
        if go_type.startswith("map["):
            inner = self._form(go_type.partition("]")[2], package)
            wire = "strings" if inner.text == "[str]" else inner.wire
            return _Form(f"{{{inner.text}}}", f"{{{wire}}}", False, pointer)
        return self._named(go_type, package, pointer)

    def _known(self, go_type: str, package: str) -> str:
        local = go_type.rpartition(".")[2]
        if local in META_TYPES and self._home(go_type, package)[0] != "meta.v1":
            return ""
        return GO_TYPES.get(local if local in META_TYPES else go_type, "")

    def _named(self, go_type: str, package: str, pointer: bool) -> _Form:
        home, local = self._home(go_type, package)
        source = self._release.package(home)
        if local in source.names:
            form = self._form(source.names[local], home)
            return msgspec.structs.replace(form, is_pointer=pointer)
        group, _, version = home.partition(".")
        name = local if home == self._package else f"{group}.{local}" if version == "v1" else f"{home}.{local}"
        return _Form(name, name, True, pointer)

    def _home(self, go_type: str, package: str) -> tuple[str, str]:
        """Return the package and the name of a type that `package` names so."""
        alias, dot, local = go_type.rpartition(".")
        return (self._release.package(package).imports.get(alias, f"{alias}.v1") if dot else package), local


def _name_of_embedded(field: GoField) -> str:
    _, said, name = field.tags.get("protobuf", "").partition("name=")
    return name if said else field.type[0].lower() + field.type[1:]


def _list_suffix(field: GoField, form: _Form) -> str:
    """Return keys and patch strategy of a list, and how a map or a struct is owned and patched."""
    markers, strategy = field.markers, field.tags.get("patchStrategy", "")
    if form.text[0] == "{":
        return "*" if markers.get("mapType") == ("atomic",) else ""
    if form.text[0] != "[":
        granular = "~" if markers.get("structType") == ("granular",) else ""
        return {"retainKeys": "^retain", "replace": "^replace"}.get(strategy, granular)
    keys = ",".join(markers.get("listMapKey", ())) if markers.get("listType") == ("map",) else ""
    keys = "set" if markers.get("listType") == ("set",) else keys
    return f"{f'={keys}' if keys else ''}{_patch(keys, strategy, field.tags.get('patchMergeKey', ''))}"


def _patch(keys: str, strategy: str, merge_key: str) -> str:
    if "retainKeys" in strategy:
        return "^retain"
    if not strategy:
        return "^none" if keys else ""
    usual = "" if keys == "set" else keys.split(",")[0]
    return "" if keys and merge_key == usual else f"^merge,{merge_key}" if merge_key else "^merge"
