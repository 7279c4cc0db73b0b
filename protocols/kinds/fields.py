"""The fields of every type, read from facts/: one file a group and version, one type a line.

Notation: `Name: NUMBER:FIELDmarks:TYPE ...`, continued on indented lines. `Name+` is a kind, with apiVersion and kind;
`Name*` is owned as a whole. A first line `< resource.v1` takes over that file's types which this one does not have.
NUMBER is the field's in protobuf; a field without one does not travel there. Marks:

- `!`: the field is required,
- `@`: Go writes it always: an absent one has the zero value of its type, which is null for lists, maps and times,
- `-`: Go writes it always: an absent one is null,
- `?`: optional, and keeps a zero that was sent. Of all other fields, a zero is as good as absent,
- `&`: the fields of its type stand in the object itself; in protobuf they are a message of this number.

Types:

- a scalar, `Name`, or `group.Name` of v1; `str/X` has the value X if it is absent; `Name~` is not owned as a whole
  here, `Name^retain` is patched with retained keys, `Name^replace` as a whole,
- `{T}` a map, `{T}*` a map that is owned as a whole,
- `[T]` a list that is replaced as a whole, `[T]=a,b` a list with the keys a and b, `[T]=set` a set,
- `T|W`: T in JSON, W in protobuf.

A strategic merge patch merges sets, and keyed lists by their first key; `^none`, `^retain`, `^merge,key` override that.
Source of the facts: the OpenAPI document, the .proto files and the Go types of Kubernetes 1.36.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

FACTS = Path(__file__).with_name("facts")
WIDTH = 118
DOMAINS = {"rbac": "rbac.authorization.k8s.io", "flowcontrol": "flowcontrol.apiserver.k8s.io"}
"""Groups by their first word that are not that word below k8s.io, nor the word alone."""


class Field(msgspec.Struct, frozen=True):
    """One field of a type, as facts/ describe it."""

    number: int
    """In protobuf; 0 for none."""
    name: str
    type: str
    wire: str
    """The type in protobuf."""
    is_required: bool = False
    is_present: bool = False
    """Always written, with a zero value if absent."""
    is_null: bool = False
    """Its zero value is null."""
    keeps_zero: bool = False
    is_inline: bool = False


class Type(msgspec.Struct, frozen=True):
    """One type of the API, with its fields in the order of facts/."""

    package: str
    """Group without domain and version: `core.v1`."""
    name: str
    fields: tuple[Field, ...]
    is_kind: bool = False
    is_atomic: bool = False


@functools.cache
def packages() -> tuple[str, ...]:
    """Return the packages of facts/, sorted: one for each file."""
    return tuple(sorted(path.name.removesuffix(".txt") for path in FACTS.glob("*.txt")))


@functools.cache
def types_of(package: str) -> dict[str, Type]:
    """Return the types of a package, by name."""
    text = (FACTS / f"{package}.txt").read_text("utf-8")
    base = base_of(text)
    others = types_of(base).items() if base else ()
    inherited = {name: msgspec.structs.replace(other, package=package) for name, other in others}
    return inherited | {read.name: read for read in read_types(package, own_text(text))}


def base_of(text: str) -> str:
    """Return the package whose types a file takes over; "" for none."""
    first = text.partition("\n")[0]
    return first.removeprefix("<").strip() if first.startswith("<") else ""


def own_text(text: str) -> str:
    """Return the text of a file of facts/ without its line `< PACKAGE`."""
    return text.partition("\n")[2] if base_of(text) else text


def package_of(group: str, version: str) -> str:
    """Return the package of an API version; of a group that is not upstream's, one that does not exist."""
    name = group.partition(".")[0]
    mine = group in (name, DOMAINS.get(name, f"{name}.k8s.io"))
    return f"{name or 'core'}.{version}" if mine else f"{group}/{version}"


def element_of(text: str) -> str:
    """Return the type of a field, or of the elements of its list or map, without keys, defaults and marks."""
    while text[0] in "[{":
        text = text[1:].rpartition("]" if text[0] == "[" else "}")[0]
    return re.split(r"[/~^]", text, maxsplit=1)[0]


def resolve(package: str, name: str) -> tuple[str, str]:
    """Return package and name of a type that a field of `package` names."""
    group, _, local = name.rpartition(".")
    return (f"{group}.v1" if group else package), local


def inlined(each: Type) -> Iterator[Field]:
    """Return the fields of its JSON form."""
    for field in each.fields:
        if field.is_inline:
            package, name = resolve(each.package, field.type)
            yield from inlined(types_of(package)[name])
        else:
            yield field


def read_types(package: str, text: str) -> Iterator[Type]:
    """Parse the types of a file of facts/."""
    for line in text.strip().replace("\n    ", " ").splitlines():
        header, *fields = line.split()
        name = header.rstrip("*+:")
        yield Type(package, name, tuple(map(_field, fields)), is_kind="+" in header, is_atomic="*" in header)


def wrapped(head: str, parts: Iterable[str]) -> str:
    """Return a line that goes on indented ones."""
    lines = [head]
    for part in parts:
        if len(lines[-1]) + 1 + len(part) > WIDTH:
            lines.append("   ")
        lines[-1] += f" {part}"
    return "\n".join(lines)


def _field(text: str) -> Field:
    number, marked, kind = text.split(":", 2)
    name = marked.rstrip("!@?&-")
    marks, (kind, _, wire) = marked[len(name) :], kind.partition("|")
    return Field(
        int(number or 0), name, kind, wire or kind, is_required="!" in marks, is_present="@" in marks or "-" in marks,
        is_null="-" in marks, keeps_zero="?" in marks, is_inline="&" in marks,
    )  # fmt: skip
