"""One broken field: the causes inside a 422, and the sentence made of them."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from actors.apiserver.api.errors import Invalid

MAX_TOLD = 100
"""Causes in one 422: three megabytes of mistakes must not become two hundred of answer."""
MAX_SHOWN = 1000
"""Characters of a refused value."""


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
    """The 422 of `causes`; `kind` is the Kind, as clients expect in details here."""
    told = causes[:MAX_TOLD]
    texts = [f"{cause.field}: {cause.message}" for cause in told]
    if len(causes) > len(told):
        texts.append(f"... {len(causes) - len(told)} more")
    body = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    subject, name = f"{kind}.{group}" if group else kind, name[:MAX_SHOWN]
    details = {
        "name": name,
        "group": group,
        "kind": kind,
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in told],
    }
    return Invalid(f'{subject} "{name}" is invalid: {body}', details)


def invalid_options(kind: str, *causes: Cause) -> Invalid:
    """The 422 of request options (ListOptions, PatchOptions ...)."""
    return invalid_object(kind, "meta.k8s.io", "", causes)


def _join(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title


def _show(value: object) -> str:
    try:
        shown = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        shown = f'"{value}"'
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
