"""Schemas of kinds by group and version, parsed from their tables at the first use.

Notation of the tables: `Name: field:type field!:type ...`, continued on indented lines. `Name*` is owned as a whole,
`Name+` is a kind with apiVersion and kind, `field!` is required. Types:

- a scalar, `Name`, or `package.Name`; `str/X` has the value X if it is absent; `Name~` is not owned as a whole here,
  `Name^retain` is patched with retained keys, `Name^replace` as a whole,
- `{T}` a map, `{T}*` a map that is owned as a whole,
- `[T]` a list that is replaced as a whole, `[T]=a,b` a list with the keys a and b, `[T]=set` a set.

A strategic merge patch merges sets, and keyed lists by their first key; `^none`, `^retain`, `^merge,key` override that.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from actors.apiserver.api.schemas.shape import (
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


def lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (header, fields) of each type."""
    for line in text.strip().replace("\n    ", " ").splitlines():
        header, *fields = line.split()
        yield header.removesuffix(":"), fields


def empty_struct(package: str, header: str) -> Shape:
    made = Shape(STRUCT, name=f"{package}.{header.rstrip('*+')}", atomic=header.endswith("*"))
    made.gvk = header.endswith("+")
    return made


def fill(struct: Shape, fields: Iterable[str], lookup: FindStruct) -> None:
    required = []
    if struct.gvk:
        struct.fields.update(apiVersion=PLAIN[TEXT], kind=PLAIN[TEXT])
    for field in fields:
        name, _, kind = field.partition(":")
        if name.endswith("!"):
            name = name[:-1]
            required.append(name)
        struct.fields[name] = shape_of(kind, lookup)
    struct.required = tuple(required)


def mark_zeros(struct: Shape, fields: Iterable[str]) -> None:
    """Set which fields are always present and which keep a zero, from the words of the table of zeros."""
    kept = []
    for field in fields:
        if field[0] == "?":
            kept.append(field[1:])
            continue
        name = field.removesuffix("-")
        kind = struct.fields[name]
        struct.present[name] = _null if field != name else kind.blank if kind.form == STRUCT else _zero(kind.form)
    struct.kept, struct.always = frozenset(kept), tuple(struct.present.items())


def _zero(form: str) -> Callable[[], Any]:
    return (lambda: "0") if form == QUANTITY else ZERO.get(form, _null)


def _null() -> None:
    return None


def shape_of(kind: str, lookup: FindStruct) -> Shape:
    if kind[0] == "[":
        return _list(kind, lookup)
    if kind[0] == "{":
        inner, _, whole = kind[1:].rpartition("}")
        return Shape(MAP, item=shape_of(inner, lookup), atomic=bool(whole))
    if kind in PLAIN:
        return PLAIN[kind]
    form, slash, default = kind.partition("/")
    if slash:
        made = Shape(form)
        made.default = default
        return made
    return lookup(kind)


def _list(kind: str, lookup: FindStruct) -> Shape:
    inner, _, rest = kind[1:].partition("]")
    keyed, _, patch = rest.partition("^")
    keyed = keyed.removeprefix("=")
    made = Shape(LIST, item=shape_of(inner, lookup))
    made.scalar_set = keyed == "set"
    made.keys = tuple(keyed.split(",")) if keyed and not made.scalar_set else ()
    made.patch = _patch(patch, made)
    return made


def _patch(text: str, made: Shape) -> tuple[str, str]:
    strategy, _, key = text.partition(",")
    key = key or (made.keys[0] if made.keys else "")
    if strategy == "none":
        return "", ""
    if strategy == "retain":
        return "merge,retainKeys", key
    return ("merge", key) if strategy or made.keys or made.scalar_set else ("", "")


API = "io.k8s.api."
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
GROUP_SUFFIX = ".k8s.io"
OTHER_GROUPS = (
    "authentication", "authorization", "coordination", "discovery", "events", "networking", "node", "policy", "rbac",
    "scheduling", "storage",
)  # fmt: skip


class Registry:
    """Shapes of all structs, parsed from `texts`: tables by package, the part of a full name before the type.

    `zeros` holds a table of zero values for each package that has some.
    """

    def __init__(self, texts: Mapping[str, Iterable[str]], zeros: Mapping[str, str]) -> None:
        self.structs: dict[str, Shape] = {}
        self._aliases = {_alias(package): package for package in texts}
        bodies: list[tuple[str, Shape, list[str]]] = []
        for package, parts in texts.items():
            for header, fields in (pair for part in parts for pair in lines(part)):
                struct = empty_struct(package, header)
                self.structs[struct.name] = struct
                bodies.append((package, struct, fields))
        for package, struct, fields in bodies:
            fill(struct, fields, functools.partial(self._lookup, package))
        for package, text in zeros.items():
            for header, fields in lines(text):
                mark_zeros(self.structs[f"{package}.{header}"], fields)
        for struct in self.structs.values():
            struct.nothing = struct.blank()

    def kind(self, group: str, version: str, kind: str) -> Shape | None:
        """Return the shape of a kind; None if it is unknown."""
        name = group.removesuffix(GROUP_SUFFIX).partition(".")[0] or "core"
        return self.structs.get(f"{API}{name}.{version}.{kind}")

    def _lookup(self, package: str, name: str) -> Shape:
        if name.endswith("~"):
            return self._lookup(package, name[:-1]).granular()
        if name.endswith("^replace"):
            found = self._lookup(package, name.removesuffix("^replace"))
            made = found.granular()
            made.atomic, made.patch = found.atomic, ("replace", "")
            return made
        if name.endswith("^retain"):
            made = self._lookup(package, name.removesuffix("^retain")).granular()
            made.patch = ("retainKeys", "")
            return made
        alias, dot, short = name.partition(".")
        return self.structs[f"{self._aliases[alias]}.{short}" if dot else f"{package}.{name}"]


def _alias(package: str) -> str:
    """Return `core` of io.k8s.api.core.v1. Other packages never refer to a second version of a group."""
    parts = package.split(".")
    return parts[-2] if parts[-1] == "v1" else package


@functools.lru_cache(maxsize=1)
def registry() -> Registry:
    from actors.apiserver.api.schemas import admission, core, others, policy, resource, stored_only, workloads, zeros

    core_texts = (
        core.CORE_OBJECTS, core.CORE_POD, core.CORE_CONTAINERS, core.CORE_VOLUMES, others.CORE_STORAGE,
        workloads.CORE_WORKLOADS, policy.CORE_POLICY)  # fmt: skip
    texts: dict[str, tuple[str, ...]] = {META: (others.META,), f"{API}core.v1": core_texts}
    texts[f"{API}resource.v1"] = (resource.RESOURCE,)
    texts[f"{API}resource.v1beta2"] = (resource.RESOURCE_BETA2,)
    texts[f"{API}resource.v1beta1"] = (resource.RESOURCE_BETA1,)
    texts[f"{API}resource.v1alpha3"] = (resource.RESOURCE_ALPHA,)
    texts[f"{API}apiextensions.v1"] = (others.EXTENSIONS,)
    texts[f"{API}autoscaling.v1"] = (others.AUTOSCALING,)
    texts[f"{API}autoscaling.v2"] = (stored_only.AUTOSCALING_V2,)
    texts[f"{API}apiregistration.v1"] = (stored_only.APIREGISTRATION,)
    for name in OTHER_GROUPS:
        texts[f"{API}{name}.v1"] = (getattr(others, name.upper()),)
    texts[f"{API}networking.v1"] += (stored_only.ADDRESSES,)
    texts[f"{API}apps.v1"] = (workloads.APPS,)
    texts[f"{API}batch.v1"] = (workloads.BATCH,)
    texts[f"{API}storage.v1"] = (others.STORAGE, workloads.STORAGE_ATTACHMENTS, stored_only.VOLUME_CLASSES)
    texts[f"{API}metrics.v1beta1"] = (others.METRICS,)
    texts[f"{API}admissionregistration.v1"] = (admission.ADMISSION,)
    texts[f"{API}certificates.v1"] = (admission.CERTIFICATES,)
    return Registry(texts, {**zeros.ZEROS, **admission.ZEROS, **stored_only.ZEROS})


@functools.lru_cache(maxsize=64)
def kind_shape(group: str, version: str, kind: str) -> Shape | None:
    return registry().kind(group, version, kind)


ANYTHING = PLAIN["any"]
