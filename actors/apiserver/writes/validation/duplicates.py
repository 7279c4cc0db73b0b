"""Fields that a body names twice: decoders keep the last and say nothing."""

import json
from typing import Any

import msgspec

MAX_TOLD = 100
_encode = msgspec.json.Encoder().encode


def is_json(raw: bytes) -> bool:
    """Whether text that was read as YAML is JSON in truth, as kubectl's is."""
    if raw.lstrip()[:1] != b"{":
        return False
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def duplicates(raw: bytes, decoded: Any, thorough: bool) -> list[str]:
    """Paths of duplicate keys in sound JSON. Text that is its own re-encoding has none; unless `thorough`, text that
    is, without its spaces, as long as its own re-encoding is taken as clean, too: a duplicate makes it longer, and only
    exotic numbers or escapes could hide that."""
    again = _encode(decoded)
    if again == raw or (not thorough and len(again) == len(msgspec.json.format(raw, indent=-1))):
        return []
    try:
        marked = json.loads(raw, object_pairs_hook=_pairs, parse_int=_unread, parse_float=_unread)
    except RecursionError:
        return []
    found: list[str] = []
    _collect(marked, "", found)
    return found[:MAX_TOLD]


def _unread(text: str) -> None:
    """Numbers do not matter here, and reading some takes long."""


class _Marked(dict[str, Any]):
    """An object in which keys were repeated."""

    repeated: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    marked, seen = _Marked(made), set()
    repeated = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]  # add is None
    marked.repeated = tuple(dict.fromkeys(repeated))
    return marked


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, dict):
        if isinstance(value, _Marked):
            found += [f"{path}.{key}".removeprefix(".") for key in value.repeated]
        for key, part in value.items():
            _collect(part, f"{path}.{key}", found)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _collect(part, f"{path}[{index}]", found)
