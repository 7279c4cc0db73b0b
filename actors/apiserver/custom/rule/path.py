"""Where a rule says its fault lies: `.spec.a['b']`, below the place that has the rule."""

import re
from collections.abc import Iterator
from typing import Any

STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:\\.|[^'\\])*)'\]")


def path_fault(text: str, raw: dict[str, Any]) -> str:
    """What is wrong with it; empty = nothing."""
    for step in _steps(text):
        if step is None:
            return "expected [ or . before each name"
        properties, additional = raw.get("properties"), raw.get("additionalProperties")
        found = properties.get(step) if isinstance(properties, dict) else additional
        if not isinstance(found, dict):
            return "does not refer to a valid field"
        raw = found
    return ""


def below(text: str, raw: dict[str, Any]) -> str:
    """As error texts write it: fields by a dot, keys of maps in brackets."""
    told = ""
    for step in _steps(text):
        named = isinstance(raw.get("properties"), dict)
        told += f".{step}" if named else f"[{step}]"
        raw = (raw["properties"].get(step) if named else raw.get("additionalProperties")) or {}
    return told


def _steps(text: str) -> Iterator[str | None]:
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            yield None
            return
        yield found["name"] if found["name"] is not None else re.sub(r"\\(.)", r"\1", found["quoted"])
        at = found.end()
