"""FNV-1a, 32 bits: what kubelet signs its checkpoints with. Pure.

A step is `h = (h ^ byte) * PRIME`, and the xor touches only the low eight bits. So the low bytes of a run depend on the
low byte it began with alone, and over a fixed text the whole is `h * PRIME**n + c(low byte)`: a text that is hashed
again and again after others need not be walked again.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

OFFSET, PRIME, MASK = 2166136261, 16777619, 0xFFFFFFFF


def fold(hashed: int, text: bytes) -> int:
    """The hash after `text`, which follows what was `hashed` before."""
    for byte in text:
        hashed = (hashed ^ byte) * PRIME & MASK
    return hashed


class Constant:
    """A text whose fold is remembered, by the low byte it starts from."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._factor = pow(PRIME, len(text), MASK + 1)
        self._known: dict[int, int] = {}

    def fold(self, hashed: int) -> int:
        low = hashed & 0xFF
        if low not in self._known:
            self._known[low] = (fold(hashed, self.text) - hashed * self._factor) & MASK
        return (hashed * self._factor + self._known[low]) & MASK


class Field(NamedTuple):
    name: str
    type: str
    text: str


def checksum_of(text: str) -> int:
    return fold(OFFSET, text.encode())


def struct(fields: Iterable[Field]) -> str:
    return "{" + " ".join(f"{field.name}:({field.type}){field.text}" for field in fields) + "}"


def mapping(items: Mapping[str, str]) -> str:
    """Keys in the order of bytes."""
    return "map[" + " ".join(f"{key}:{items[key]}" for key in sorted(items, key=str.encode)) + "]"


def numbered(items: Mapping[int, str]) -> str:
    return "map[" + " ".join(f"{key}:{items[key]}" for key in sorted(items)) + "]"


def sequence(items: Iterable[object]) -> str:
    return "[" + " ".join(str(item) for item in items) + "]"
