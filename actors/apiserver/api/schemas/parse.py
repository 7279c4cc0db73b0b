"""The compact notation of the schema tables.

`Name: field:type field!:type ...`, continued on indented lines. `Name*` is owned as a whole, `Name+` is a kind (has
apiVersion and kind), `field!` is required. Types: a scalar; `Name` or `package.Name`; `{T}` a map; `{T}*` a map owned
as a whole; `[T]` a list replaced whole; `[T]=a,b` a list keyed by a and b; `[T]=set` a set. A strategic patch merges
keyed lists by their first key, and sets; `^none`, `^retain` or `^merge,key` say otherwise. `str/X`: absent means X.
"""

from collections.abc import Callable, Iterable, Iterator

from actors.apiserver.api.schemas.shape import ANY, JSON, LIST, MAP, SCALARS, STRUCT, TEXT, Shape

PLAIN = {form: Shape(form) for form in (*SCALARS, ANY, JSON)}
Lookup = Callable[[str], Shape]
"""A struct by the name a field's type gives it."""


def lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """(header, fields) of each type."""
    for line in text.strip().replace("\n    ", " ").splitlines():
        header, *fields = line.split()
        yield header.removesuffix(":"), fields


def empty_struct(package: str, header: str) -> Shape:
    made = Shape(STRUCT, name=f"{package}.{header.rstrip('*+')}", atomic=header.endswith("*"))
    made.gvk = header.endswith("+")
    return made


def fill(struct: Shape, fields: Iterable[str], lookup: Lookup) -> None:
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


def shape_of(kind: str, lookup: Lookup) -> Shape:
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


def _list(kind: str, lookup: Lookup) -> Shape:
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
