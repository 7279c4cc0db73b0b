"""Checksums of kubelet's checkpoints: 32-bit FNV-1a over Go's text form of a value. Pure.

A step is `h = (h ^ byte) * PRIME`, and the xor touches only the low eight bits. So over a constant text the hash is `h
* PRIME**n + c`, where c depends only on the low byte of h: `Constant` caches it and need not walk the text again.

In Go's text form structs print the type of each field, elements of maps and lists print none, pointers in maps print
`<*>`, and map keys are sorted.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

OFFSET, PRIME, MASK = 2166136261, 16777619, 0xFFFFFFFF


def fold(hashed: int, text: bytes) -> int:
    """Return the hash of `text` appended to what was `hashed` before."""
    for byte in text:
        hashed = (hashed ^ byte) * PRIME & MASK
    return hashed


class Constant:
    """A text whose hash is cached by the low byte it starts from."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._factor = pow(PRIME, len(text), MASK + 1)
        self._known: dict[int, int] = {}

    def fold(self, hashed: int) -> int:
        low = hashed & 0xFF
        if low not in self._known:
            self._known[low] = (fold(hashed, self.text) - hashed * self._factor) & MASK
        return (hashed * self._factor + self._known[low]) & MASK


class GoField(NamedTuple):
    """A field of a Go struct: name, type and the text of its value."""

    name: str
    type: str
    text: str


def checksum_of(text: str) -> int:
    """Return the 32-bit FNV-1a hash of the text."""
    return fold(OFFSET, text.encode())


def struct(fields: Iterable[GoField]) -> str:
    """Return Go's text of a struct, without its type."""
    return "{" + " ".join(f"{field.name}:({field.type}){field.text}" for field in fields) + "}"


def mapping(items: Mapping[str, str]) -> str:
    """Format a map with its keys in byte order."""
    return "map[" + " ".join(f"{key}:{items[key]}" for key in sorted(items, key=str.encode)) + "]"


def numbered(items: Mapping[int, str]) -> str:
    """Return Go's text of a map by numbers, sorted as Go sorts it."""
    return "map[" + " ".join(f"{key}:{items[key]}" for key in sorted(items)) + "]"


def sequence(items: Iterable[object]) -> str:
    """Return Go's text of a slice, without its type."""
    return "[" + " ".join(str(item) for item in items) + "]"
