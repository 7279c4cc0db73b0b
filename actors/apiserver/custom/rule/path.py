"""Where a rule says its fault lies, or what a field selector looks at: `.spec.a['b']`, below some place of a schema."""

import re
from collections.abc import Iterator
from typing import Any

STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:\\.|[^'\\])*)'\]")


class _Wrong(str):
    """Why it cannot be read."""


def path_fault(text: str, raw: dict[str, Any]) -> str:
    """What is wrong with it; empty = nothing."""
    for step in _steps(text):
        if isinstance(step, _Wrong):
            return str(step)
        found = _below(raw, step)
        if not isinstance(found, dict):
            return "does not refer to a valid field"
        raw = found
    return ""


def found_at(text: str, raw: dict[str, Any]) -> dict[str, Any]:
    """The schema there; of a sound path."""
    for step in _steps(text):
        raw = _below(raw, step) or {}
    return raw


def spelled(text: str) -> str:
    """The same for all spellings of one path."""
    return "".join(f".{step}" for step in _steps(text))


def below(text: str, raw: dict[str, Any]) -> str:
    """As error texts write it: fields by a dot, keys of maps in brackets."""
    told = ""
    for step in _steps(text):
        told += f".{step}" if isinstance(raw.get("properties"), dict) else f"[{step}]"
        raw = _below(raw, step) or {}
    return told


def _below(raw: dict[str, Any], step: str) -> Any:
    properties = raw.get("properties")
    return properties.get(step) if isinstance(properties, dict) else raw.get("additionalProperties")


def _steps(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            strange = re.split(r"[.\[\]]", text[at:], maxsplit=1)[0]
            yield _Wrong(f"expected [ or . but got: {strange}" if strange else "unexpected end of JSON path")
            return
        yield found["name"] if found["name"] is not None else re.sub(r"\\(.)", r"\1", found["quoted"])
        at = found.end()
