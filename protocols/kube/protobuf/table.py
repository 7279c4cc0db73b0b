"""The messages by name. Those of a package are made of the facts of protocols/kinds when the first is asked for."""

import functools

from protocols.kinds.fields import Field as Fact
from protocols.kinds.fields import element_of, package_of, packages, resolve, types_of
from protocols.kube.protobuf.types import INLINE, LIST, MAP, ONE, SCALARS, KindUnknown, Leaf, Message, WireField
from protocols.kube.protobuf.values import UNIONS, VALUES

META = "meta.v1"
EVERYWHERE = ("DeleteOptions", "Status")
"""Kinds of meta/v1 that are part of every version."""
OLDER_META = "meta.k8s.io/v1beta1"
"""Has the kinds of meta.k8s.io/v1."""


def message_of(api_version: str, kind: str) -> Message:
    """Raises KindUnknown."""
    package, name = _package_of(api_version), kind.removesuffix("List")
    if is_known(api_version, kind):
        return _top(package, name, name != kind)
    if kind in EVERYWHERE:
        return _package(META)[kind]
    raise KindUnknown(api_version, kind)


def is_known(api_version: str, kind: str) -> bool:
    """Return True if the facts have the fields of this kind, or of the kind whose List it is."""
    package = _package_of(api_version)
    return package in packages() and kind.removesuffix("List") in kinds_of(package)


@functools.cache
def kinds_of(package: str) -> frozenset[str]:
    """Return the kinds of one of `packages` that have a form in protobuf."""
    known = types_of(package).values()
    return frozenset(
        message.name for message in known if message.is_kind and any(field.number for field in message.fields)
    )


def messages() -> dict[str, Message]:
    """Every message, by `package.Name`."""
    return {message.name: message for package in packages() for message in _package(package).values()}


def _package_of(api_version: str) -> str:
    group, _, version = api_version.rpartition("/")
    return META if api_version == OLDER_META else package_of(group, version)


@functools.cache
def _package(package: str) -> dict[str, Message]:
    """The messages of a package by name; those of other packages that they hold are built too."""
    known = types_of(package)
    by_name = {name: Message(f"{package}.{name}", union=UNIONS.get(name)) for name in known}
    for name, read in known.items():
        by_name[name].fields.update(
            (field.number, _field(package, field, by_name)) for field in read.fields if field.number
        )
    return by_name


@functools.lru_cache(maxsize=256)
def _top(package: str, name: str, listing: bool) -> Message:
    message = _package(package)[name]
    return _list_of(message) if listing else message


def _list_of(message: Message) -> Message:
    metadata = WireField(1, "metadata", ONE, _package(META)["ListMeta"])
    return Message(f"{message.name}List", {1: metadata, 2: WireField(2, "items", LIST, message)})


def _field(package: str, fact: Fact, found: dict[str, Message]) -> WireField:
    shape, kind = _shape(fact)
    type = _type(package, kind, found)
    if shape == MAP:
        type = Message(fact.name, {1: _part(1, "key", SCALARS["str"]), 2: _part(2, "value", type)})
    keep = shape == ONE and (fact.is_present or fact.keeps_zero or isinstance(type, Message))
    return WireField(fact.number, fact.name, shape, type, keep_zero=keep)


def _part(number: int, name: str, type: Leaf | Message) -> WireField:
    return WireField(number, name, ONE, type, keep_zero=True)


def _type(package: str, kind: str, found: dict[str, Message]) -> Leaf | Message:
    if kind in SCALARS:
        return SCALARS[kind]
    if kind in VALUES:
        return VALUES[kind]
    other, name = resolve(package, kind)
    return (found if other == package else _package(other))[name]


def _shape(fact: Fact) -> tuple[str, str]:
    """Return the shape of a field, and the type of it or of its elements."""
    shape = {"[": LIST, "{": MAP}.get(fact.wire[0], INLINE if fact.is_inline else ONE)
    return shape, element_of(fact.wire)
