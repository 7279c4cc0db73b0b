"""Additional printer columns of custom resources.

Values are formatted as kubectl does: numbers in Go's notation, objects as JSON with sorted keys.
"""

import logging
from decimal import Decimal
from typing import Any

import msgspec

from protocols.kinds.check.budget import spend
from protocols.kinds.custom.printing.jsonpath import JsonPath, PathInvalid
from protocols.kinds.served.columns import AGE, NAME, UNKNOWN, age_of
from protocols.kinds.served.row import Column
from protocols.kube.meta import Object
from protocols.kube.objects import text

ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
DIGITS = 6
"""Numbers with more integer digits than this use exponent notation."""


def format_value(value: Any) -> str:
    """Return a value as a table cell; null is `<no value>`."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return _as_json(value)
    whole = not isinstance(value, float) or (value.is_integer() and abs(value) < 2**63)
    return str(int(value)) if whole else _format_float(value)


def _as_json(value: Any) -> str:
    encoded = msgspec.json.encode(value, order="sorted").decode()
    for sign, escape in ESCAPED.items():
        encoded = encoded.replace(sign, escape)
    return encoded


def _format_float(value: float) -> str:
    """Format the shortest text that parses to the same number."""
    sign, digits, shift = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits) + int(shift) - 1
    if -4 <= exponent < DIGITS:
        return repr(value) if abs(value) >= 1e-4 else f"{Decimal(repr(value)):f}"
    mantissa = "".join(map(str, digits))
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' if sign else ''}{mantissa[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


MOST_COLUMNS = 100
LONGEST_CELL = 4096
"""Characters of a cell."""
CELL_BYTES = 100
"""Bytes of a value as JSON that take a microsecond."""
log = logging.getLogger(__name__)
WRONG_DATE = "<invalid>"


def columns_of(wanted: tuple[Object, ...]) -> tuple[Column, ...]:
    """Build at most MOST_COLUMNS, up to the first one with an invalid path: a stored definition may hold such paths."""
    if not wanted:
        return (NAME, AGE)
    columns = [NAME]
    for column in wanted[:MOST_COLUMNS]:
        try:
            columns.append(_column(column))
        except PathInvalid as error:
            log.info("printer columns from this one on are not shown column=%s error=%s", text(column, "name"), error)
            break
    return tuple(columns)


def _column(wanted: Object) -> Column:
    path, kind = JsonPath(text(wanted, "jsonPath")), text(wanted, "type")
    described = text(wanted, "description") or f"Custom resource definition column (in JSONPath format): {path.text}"
    return Column(
        name=text(wanted, "name"),
        cell=lambda obj: _cell(path.values(obj), kind),
        priority=int(wanted.get("priority") or 0),
        type=kind,
        format=text(wanted, "format"),
        description=described,
    )


def _cell(values: list[Any], kind: str) -> Any:
    """Return the first value, or None if it does not match the column's type: kubectl shows an empty cell."""
    if not values:
        return None
    value = values[0]
    if kind == "string":
        shown = format_value(value)
        spend(len(shown) // CELL_BYTES)
        return shown if len(shown) <= LONGEST_CELL else f"{shown[:LONGEST_CELL]}..."
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return _float(value) if number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return _age(value) if kind == "date" and isinstance(value, str) else None


def _float(value: int | float) -> float | None:
    """Convert to float; return None if the number is out of range."""
    try:
        return float(value)
    except OverflowError:
        return None


def _age(stamp: str) -> str:
    shown = age_of(stamp)
    return WRONG_DATE if stamp and shown == UNKNOWN else shown
