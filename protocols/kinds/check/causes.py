"""Field errors, as of upstream's field package: validation returns them all, and a 422 lists them as its causes."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

MAX_CAUSES = 100
"""Causes in one 422: a request of 3 MB with mistakes must not get a response of 200 MB."""
MAX_SHOWN = 1000
"""Characters of a rejected value in an error text."""
MAX_LISTED = 10_000
"""Characters of the supported values in an error text: a definition may list a megabyte of them."""
OMITTED = object()
"""A value that is not shown."""


class Cause(NamedTuple):
    """One entry of a Status' `details.causes`: a field path, upstream's reason and its text."""

    field: str
    reason: str
    message: str


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a field without a value, or with an empty one where that is not allowed."""
    return Cause(field, "FieldValueRequired", _join("Required value", detail))


def forbidden(field: str, detail: str) -> Cause:
    """Return the cause for a field that must not be set or changed here, whatever its value."""
    return Cause(field, "FieldValueForbidden", _join("Forbidden", detail))


def invalid(field: str, value: object, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule; it is shown as Go prints it."""
    return Cause(field, "FieldValueInvalid", _join(_titled("Invalid value", value), detail))


def duplicate(field: str, value: object, detail: str = "") -> Cause:
    """Return the cause for a value that an earlier element of the list has."""
    return Cause(field, "FieldValueDuplicate", _join(_titled("Duplicate value", value), detail))


def too_long(field: str, limit: int) -> Cause:
    """Return the cause for a value of more than `limit` bytes, which is not shown."""
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> Cause:
    """Return the cause for a list or map of more than `limit` elements."""
    return Cause(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items")


def not_found(field: str, value: object) -> Cause:
    """Return the cause for a reference to something that the object does not have."""
    return Cause(field, "FieldValueNotFound", f"Not found: {_show(value)}")


def unsupported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    """Return the cause for a value that is none of the allowed ones, listed in the given order."""
    listed = ", ".join(f'"{item}"' for item in allowed)
    if len(listed) > MAX_LISTED:
        listed = f"{listed[:MAX_LISTED]}..."
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {listed}")


def _titled(title: str, value: object) -> str:
    return title if value is OMITTED else f"{title}: {_show(value)}"


def _join(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title


def _show(value: object) -> str:
    if isinstance(value, list):  # a list of 3 MB is the value of many causes
        value = value[:MAX_SHOWN]
    try:
        shown = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        shown = f'"{value}"'
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
