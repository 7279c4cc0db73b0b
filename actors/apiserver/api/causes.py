"""Field errors, as of upstream's field package, and the 422 that lists them as its causes.

Validation returns them all; the errors that end a request are in `errors.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from actors.apiserver.api.errors import Invalid

MAX_CAUSES = 100
"""Causes in one 422: a request of 3 MB with mistakes must not get a response of 200 MB."""
MAX_SHOWN = 1000
"""Characters of a rejected value in an error text."""


class Cause(NamedTuple):
    field: str
    reason: str
    message: str


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", _join("Required value", detail))


def forbidden(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", _join("Forbidden", detail))


def invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", _join(f"Invalid value: {_show(value)}", detail))


def duplicate(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_show(value)}")


def too_long(field: str, limit: int) -> Cause:
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> Cause:
    return Cause(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} items")


def not_found(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueNotFound", f"Not found: {_show(value)}")


def unsupported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{item}"' for item in allowed)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {listed}")


def invalid_object(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Invalid:
    """Return the 422 of `causes`. Clients expect the Kind, not the resource, in its details."""
    listed = causes[:MAX_CAUSES]
    texts = [f"{cause.field}: {cause.message}" for cause in listed]
    if len(causes) > len(listed):
        texts.append(f"... {len(causes) - len(listed)} more")
    body = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    subject, name = f"{kind}.{group}" if group else kind, name[:MAX_SHOWN]
    details = {
        "name": name,
        "group": group,
        "kind": kind,
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in listed],
    }
    return Invalid(f'{subject} "{name}" is invalid: {body}', details)


def invalid_options(kind: str, *causes: Cause) -> Invalid:
    """Return the 422 of request options, such as ListOptions or PatchOptions."""
    return invalid_object(kind, "meta.k8s.io", "", causes)


def _join(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title


def _show(value: object) -> str:
    try:
        shown = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        shown = f'"{value}"'
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
