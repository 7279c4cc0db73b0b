"""Format values as kubectl does: numbers in Go's notation, objects as JSON with sorted keys."""

from decimal import Decimal
from typing import Any

import msgspec

ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
DIGITS = 6
"""Numbers with more integer digits than this use exponent notation."""


def format_value(value: Any) -> str:
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
    encoded = msgspec.json.encode(value, order="sorted").decode()
    for sign, escape in ESCAPED.items():
        encoded = encoded.replace(sign, escape)
    return encoded


def _float(value: float) -> str:
    """Format the shortest text that parses to the same number."""
    sign, digits, shift = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits) + int(shift) - 1
    if -4 <= exponent < DIGITS:
        return repr(value) if abs(value) >= 1e-4 else f"{Decimal(repr(value)):f}"
    mantissa = "".join(map(str, digits))
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' if sign else ''}{mantissa[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
