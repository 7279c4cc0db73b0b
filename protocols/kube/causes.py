"""Causes of an Invalid status, one helper per kind of fault: `field: title: value: detail`."""

from collections.abc import Iterable
from typing import Any

import msgspec

from protocols.kube.status import Cause


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", _joined("Required value", detail), field)


def invalid_value(field: str, value: Any, detail: str = "") -> Cause:
    return Cause("FieldValueInvalid", _joined("Invalid value", shown(value), detail), field)


def not_supported(field: str, value: Any, supported: Iterable[str] = ()) -> Cause:
    names = ", ".join(shown(name) for name in sorted(supported))
    detail = f"supported values: {names}" if names else ""
    return Cause("FieldValueNotSupported", _joined("Unsupported value", shown(value), detail), field)


def forbidden_field(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueForbidden", _joined("Forbidden", detail), field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", _joined("Duplicate value", shown(value)), field)


def not_found_value(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", _joined("Not found", shown(value)), field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", _joined("Too long", f"may not be more than {limit} bytes"), field)


def too_many(field: str, actual: int, limit: int) -> Cause:
    return Cause("FieldValueTooMany", _joined("Too many", str(actual), f"must have at most {limit} items"), field)


def type_invalid(field: str, value: Any, detail: str = "") -> Cause:
    return Cause("FieldValueTypeInvalid", _joined("Invalid value", shown(value), detail), field)


def shown(value: Any, limit: int = 200) -> str:
    """A value as JSON, cut to `limit` characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= limit else text[:limit] + "..."


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
