"""Write views.pyi, the typed views of the kinds that processes of a node read, from facts/.

A view has the JSON names of a type's fields. None is required: what is read may lack any, and `.get("spec") or {}` has
the view's type. A field that Go writes as null has None in its type.
"""

from collections.abc import Iterable, Iterator

from protocols.kinds.fields import Field, Type, element_of, inlined, resolve, types_of, wrapped

Key = tuple[str, str]
"""Package and name of a type."""
HEADER = '''"""Typed views of JSON objects. Made from facts/ by `python -m protocols.kinds.generate --write`."""

from typing import Any, TypedDict

'''
VIEWED = {
    "core.v1": (
        "Pod", "Node", "Event", "Namespace", "ConfigMap", "Secret", "Service", "PersistentVolumeClaim",
    ),
    "resource.v1": ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"),
    "resource.v1alpha3": ("ResourceSlicePatch", "DeviceTaintRule"),
    "coordination.v1": ("Lease",),
    "node.v1": ("RuntimeClass",),
    "policy.v1": ("PodDisruptionBudget",),
    "storage.v1": ("StorageClass",),
}  # fmt: skip
"""Kinds with a view, by package; the types of their fields have one, too."""
SCALARS = {
    "str": "str", "bool": "bool", "int32": "int", "int64": "int", "quantity": "str", "time": "str", "microtime": "str",
    "bytes": "str", "int-or-string": "int | str", "any": "Any", "json": "Any",
}  # fmt: skip
NULLED = ("time", "microtime", "[", "{")
"""Beginnings of types whose zero value is null."""


def views_text() -> str:
    """Return the whole text of views.pyi."""
    names = _names()
    return HEADER + "".join(_view(types_of(package)[name], names) for package, name in _distinct(names))


def _names() -> dict[Key, str]:
    """Return the views' names by type. Of two types of one name that differ, the kind has it."""
    kinds = [(package, name) for package, names in VIEWED.items() for name in names]
    by_type = {key: key[1] for key in kinds}
    owners = {name: key for key, name in by_type.items()}
    for key in kinds:
        for package, name in _needed(*key):
            if (package, name) not in by_type:
                owner = owners.setdefault(name, (package, name))
                is_same = _fields(owner) == _fields((package, name))
                by_type[package, name] = name if is_same else _prefixed(package, name)
                kinds.append((package, name))
    return by_type


def _distinct(names: dict[Key, str]) -> Iterable[Key]:
    """Return a type for each name, kinds first."""
    distinct: dict[str, Key] = {}
    for key, name in names.items():
        distinct.setdefault(name, key)
    return distinct.values()


def _fields(key: Key) -> tuple[Field, ...]:
    return types_of(key[0])[key[1]].fields


def _prefixed(package: str, name: str) -> str:
    """`CoreResourceClaim`, which a container has, is not ResourceClaim."""
    return f"{package.partition('.')[0].capitalize()}{name}"


def _needed(package: str, name: str) -> Iterator[Key]:
    for field in inlined(types_of(package)[name]):
        home, inner = resolve(package, element_of(field.type))
        if inner in types_of(home):
            yield home, inner


def _view(each: Type, names: dict[Key, str]) -> str:
    kind = [("apiVersion", "str"), ("kind", "str")] if each.is_kind else []
    fields = [*kind, *((field.name, _annotation(each.package, field, names)) for field in inlined(each))]
    name = names[each.package, each.name]
    body = ",\n".join(f'"{field}": {annotation}' for field, annotation in fields)
    return wrapped(f'{name} = TypedDict("{name}",', f"{{{body}}},\ntotal=False)".split("\n")) + "\n"


def _annotation(package: str, field: Field, names: dict[Key, str]) -> str:
    null = field.is_null or (field.is_present and field.type.startswith(NULLED) and not field.is_required)
    element = element_of(field.type)
    view = SCALARS.get(element) or names[resolve(package, element)]
    return _nested(field.type, view) + (" | None" if null else "")


def _nested(kind: str, view: str) -> str:
    """Return the type of lists and maps, as deep as they are, of `view`."""
    if kind[0] not in "[{":
        return view
    inner = _nested(kind[1:].rpartition("]" if kind[0] == "[" else "}")[0], view)
    return f"list[{inner}]" if kind[0] == "[" else f"dict[str, {inner}]"
