"""Values as kubectl's columns show them: Go's way to write numbers, objects as JSON with their names in order."""

from decimal import Decimal
from typing import Any

import msgspec

ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
DIGITS = 6
"""Numbers as large as this many digits are told with an exponent."""


def printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return as_json(value)
    whole = not isinstance(value, float) or (value.is_integer() and abs(value) < 2**63)
    return str(int(value)) if whole else _float(value)


def as_json(value: Any) -> str:
    told = msgspec.json.encode(value, order="sorted").decode()
    for sign, escape in ESCAPED.items():
        told = told.replace(sign, escape)
    return told


def _float(value: float) -> str:
    """The shortest that reads as the same number."""
    sign, digits, shift = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits) + int(shift) - 1
    if -4 <= exponent < DIGITS:
        return repr(value) if abs(value) >= 1e-4 else f"{Decimal(repr(value)):f}"
    told = "".join(map(str, digits))
    fraction = f".{told[1:]}" if len(told) > 1 else ""
    return f"{'-' if sign else ''}{told[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
