"""Validate value limits such as enum, maxLength and minimum. Messages equal upstream's."""

import math
from typing import Any

import msgspec

from actors.apiserver.api.causes import Cause, invalid, too_long, unsupported
from actors.apiserver.custom.schema.node import Node
from protocols.kube.formats import fits

RANGES = {"int32": 2**31, "int64": 2**63}


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def has_type(value: Any, wanted: str) -> bool:
    if wanted == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return type_of(value) == wanted


def limit_causes(value: Any, node: Node, path: str) -> list[Cause]:
    raw = node.raw
    causes = []
    if raw.get("enum") is not None and not any(_equal(value, allowed) for allowed in raw["enum"]):
        causes.append(unsupported(path, value, [v if isinstance(v, str) else _json(v) for v in raw["enum"]]))
    if isinstance(value, str):
        return causes + _text_causes(value, node, path)
    if isinstance(value, list):
        return causes + _size_causes(len(value), raw, path, "Items", value)
    if isinstance(value, dict):
        return causes + _size_causes(len(value), raw, path, "Properties", value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return causes + _number_causes(value, raw, path)
    return causes


def _text_causes(value: str, node: Node, path: str) -> list[Cause]:
    raw = node.raw
    causes = []
    if raw.get("maxLength") is not None and len(value) > raw["maxLength"]:
        causes.append(too_long(path, raw["maxLength"]))
    if raw.get("minLength") is not None and len(value) < raw["minLength"]:
        causes.append(invalid(path, value, f"{path} in body should be at least {raw['minLength']} chars long"))
    if node.pattern is not None and not node.pattern.found_in(value):
        causes.append(invalid(path, value, f"{path} in body should match '{node.pattern.text}'"))
    form = raw.get("format")
    if form and not fits(form, value):
        causes.append(type_invalid(path, value, f"{path} in body must be of type {form}: {_json(value)}"))
    return causes


def _size_causes(size: int, raw: dict[str, Any], path: str, what: str, value: Any) -> list[Cause]:
    most, least = raw.get(f"max{what}"), raw.get(f"min{what}")
    causes = []
    if most is not None and size > most:
        causes.append(Cause(path, "FieldValueTooMany", f"Too many: {size}: must have at most {most} items"))
    if least is not None and size < least:
        causes.append(invalid(path, size, f"{path} in body should have at least {least} {what.lower()}"))
    return causes


def _number_causes(value: float, raw: dict[str, Any], path: str) -> list[Cause]:
    causes = []
    most, least, step = raw.get("maximum"), raw.get("minimum"), raw.get("multipleOf")
    bound = RANGES.get(raw.get("format") or "")
    if bound and not -bound <= value < bound:
        causes.append(invalid(path, value, f"{path} in body must be of type {raw['format']}: {_json(value)}"))
    if most is not None and (value > most or (raw.get("exclusiveMaximum") and value == most)):
        words = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        causes.append(invalid(path, value, f"{path} in body should be {words} {_number(most)}"))
    if least is not None and (value < least or (raw.get("exclusiveMinimum") and value == least)):
        words = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(invalid(path, value, f"{path} in body should be {words} {_number(least)}"))
    if step and not _is_multiple(value, step):
        causes.append(invalid(path, value, f"{path} in body should be a multiple of {_number(step)}"))
    return causes


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    ratio = value / step
    return math.isfinite(ratio) and math.isclose(ratio, round(ratio), abs_tol=1e-9)


def type_invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause(path, "FieldValueTypeInvalid", invalid(path, value, detail).message)


def _equal(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
