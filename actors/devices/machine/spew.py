"""The text a kubelet hashes for its checkpoints: a Go value printed with types, keys in order. Pure.

Structs print the type of each field; elements of maps and lists print none; pointers in maps print `<*>`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.devices.ledger.fnv import OFFSET, fold


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
