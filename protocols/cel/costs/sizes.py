"""Upper bounds on the sizes of values, from which costs follow. Numbers are capped at FAR."""

import math
from collections.abc import Mapping
from typing import NamedTuple, Self

FAR = 1 << 62


class Size(NamedTuple):
    """Upper bounds: `length` as of size(), `deep` with all elements. Only texts have equal ones."""

    length: int
    deep: int


class Declared(Size):
    """Size of a value of a known type: `item` of a list or map, `fields` of an object. Compares as a plain Size."""

    item: Size | None
    fields: Mapping[str, Size]

    def __new__(cls, length: int, deep: int, item: Size | None, fields: Mapping[str, Size] | None = None) -> Self:
        self = super().__new__(cls, length, deep)
        self.item, self.fields = item, fields or {}
        return self


class Given(Declared):
    """Size of a list, map or object that comes with a request, which bounds all of it."""


class Entries(Given):
    """Size of a map that comes with a request: a key is found without a search."""


ONE = Size(1, 1)
UNKNOWN = Size(64, 64)
"""Size of an attribute: a string, or something smaller."""
ENTRIES = Size(32, 32 * (32 + 64))
"""One domain's entries: identifiers and values."""
DOMAINS = Size(32, ENTRIES.deep + 32 * 63)
"""All domains; together they have no more entries than one may have."""


def total(*parts: int) -> int:
    """Return the sum, FAR at most: what no machine can hold needs no exact number."""
    return min(sum(parts), FAR)


def product(one: int, other: int) -> int:
    """Return the product, FAR at most."""
    return min(one * other, FAR)


def tenth(count: int) -> int:
    """Return the price of reading `count` characters."""
    return max(1, math.ceil(count * 0.1))


def walked(size: Size) -> int:
    """Return the price of looking at all of a value."""
    return tenth(size.length) if size.length == size.deep else size.deep


def selected(size: Size, name: str) -> Size:
    """Return the size of a field."""
    field = size.fields.get(name) if isinstance(size, Declared) else None
    return field if field is not None else element(size)


def element(size: Size) -> Size:
    """Return the size of an element of a list, or of a value of a map."""
    if isinstance(size, Declared) and size.item is not None:
        return size.item
    if size == DOMAINS:
        return ENTRIES
    return UNKNOWN if size == ENTRIES else Size(size.deep, size.deep)


def largest(sizes: list[Size]) -> Size:
    """Return the size with most in it; that of a single character without any sizes."""
    return max(sizes, key=lambda size: size.deep, default=ONE)


def together(sizes: list[Size]) -> Size:
    """Add sizes; known items stay known, since filter and map add lists to lists."""
    items = [size.item for size in sizes if isinstance(size, Declared) and size.item is not None]
    length, deep = _together(sizes)
    return Declared(length, deep, largest(items)) if items else Size(length, deep)


def _together(sizes: list[Size]) -> Size:
    return Size(total(*(size.length for size in sizes)), total(*(size.deep for size in sizes)))
