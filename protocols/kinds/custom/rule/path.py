"""Field paths in fieldPath and selectableFields, such as `.spec.a['b']`, resolved against a schema."""

import re
from collections.abc import Iterator
from typing import Any

STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:\\.|[^'\\])*)'\]")


class _PathError(str):
    """The parse error of a path."""


def path_fault(text: str, raw: dict[str, Any]) -> str:
    """Return the fault of a path, or an empty string."""
    for step in _steps(text):
        if isinstance(step, _PathError):
            return str(step)
        schema = _below(raw, step)
        if not isinstance(schema, dict):
            return "does not refer to a valid field"
        raw = schema
    return ""


def schema_at(text: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the schema at a valid path."""
    for step in _steps(text):
        raw = _below(raw, step) or {}
    return raw


def canonical(text: str) -> str:
    """Return a canonical form, equal for all spellings of one path."""
    return "".join(f".{step}" for step in _steps(text))


def error_path(text: str, raw: dict[str, Any]) -> str:
    """Return the path as errors show it: fields with a dot, map keys in brackets."""
    path = ""
    for step in _steps(text):
        path += f".{step}" if isinstance(raw.get("properties"), dict) else f"[{step}]"
        raw = _below(raw, step) or {}
    return path


def _below(raw: dict[str, Any], step: str) -> Any:
    properties = raw.get("properties")
    return properties.get(step) if isinstance(properties, dict) else raw.get("additionalProperties")


def _steps(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = STEP.match(text, at)
        if match is None:
            strange = re.split(r"[.\[\]]", text[at:], maxsplit=1)[0]
            yield _PathError(f"expected [ or . but got: {strange}" if strange else "unexpected end of JSON path")
            return
        yield match["name"] if match["name"] is not None else re.sub(r"\\(.)", r"\1", match["quoted"])
        at = match.end()
