"""Descriptions of types and fields for `kubectl explain`, read from descriptions/: one file a group.

Notation: `Type: text`, then its fields as `  field: text`, continued on lines with four spaces. `Type < Other:` takes
over the descriptions of the fields of another type, `group.Other` those of another group. Fields of `*` mean the same
in every type of the group, those of meta's `*` everywhere.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

DESCRIPTIONS = Path(__file__).parents[1] / "descriptions"
EVERYWHERE = "meta"


class Described(msgspec.Struct, frozen=True):
    """The descriptions of one type."""

    text: str
    base: str
    """The type whose fields it takes over; "" for none."""
    fields: dict[str, str]


def description(full_name: str, field: str = "") -> str:
    """Return the description of a type by its full name, or of one of its fields; empty if there is none."""
    *path, name = full_name.split(".")
    group = path[-2] if len(path) > 1 else EVERYWHERE
    return _field(group, name, field) if field else _type(group, name).text


def _field(group: str, name: str, field: str) -> str:
    described = _type(group, name)
    if field in described.fields:
        return described.fields[field]
    if described.base:
        other, _, base = described.base.rpartition(".")
        return _field(other or group, base, field)
    return _type(group, "*").fields.get(field) or _type(EVERYWHERE, "*").fields.get(field, "")


def _type(group: str, name: str) -> Described:
    return described_types(group).get(name) or Described("", "", {})


@functools.cache
def described_types(group: str) -> dict[str, Described]:
    """Return the descriptions of a group's types by name; none for a group without a file."""
    path = DESCRIPTIONS / f"{group}.txt"
    return dict(_read(path.read_text("utf-8"))) if path.exists() else {}


def _read(text: str) -> Iterator[tuple[str, Described]]:
    lines = re.sub(r"\n {4}", " ", text).splitlines()
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        head, _, summary = lines[start].partition(":")
        name, _, base = head.partition(" < ")
        fields = [line.strip().partition(": ") for line in lines[start + 1 : end]]
        yield name, Described(summary.strip(), base, {field: meaning for field, _, meaning in fields})
