"""The columns of `kubectl get` that a definition asks for."""

import logging
from typing import Any

from actors.apiserver.api.objects import Obj, text
from actors.apiserver.api.resource import Column
from actors.apiserver.custom.printing.jsonpath import JsonPath, PathInvalid
from actors.apiserver.custom.printing.printing import printed
from actors.apiserver.resources.cells import AGE, NAME, UNKNOWN, age_of

log = logging.getLogger(__name__)
WRONG_DATE = "<invalid>"


def columns_of(wanted: tuple[Obj, ...]) -> tuple[Column, ...]:
    """Up to the first whose path nobody can read: a definition may hold such ones."""
    if not wanted:
        return (NAME, AGE)
    columns = [NAME]
    for each in wanted:
        try:
            columns.append(_column(each))
        except PathInvalid as error:
            log.info("column %s and those behind it are not shown: jsonPath %s", text(each, "name"), error)
            break
    return tuple(columns)


def _column(wanted: Obj) -> Column:
    path, kind = JsonPath(text(wanted, "jsonPath")), text(wanted, "type")
    told = text(wanted, "description") or f"Custom resource definition column (in JSONPath format): {path.text}"
    return Column(
        name=text(wanted, "name"),
        cell=lambda obj: _cell(path.values(obj), kind),
        priority=int(wanted.get("priority") or 0),
        type=kind,
        format=text(wanted, "format"),
        description=told,
    )


def _cell(found: list[Any], kind: str) -> Any:
    """Of the first value. None where it is not of the column's type: kubectl shows nothing there."""
    if not found:
        return None
    value = found[0]
    if kind == "string":
        return printed(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return _float(value) if number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return _age(value) if kind == "date" and isinstance(value, str) else None


def _float(value: int | float) -> float | None:
    """None for a whole number that no float holds."""
    try:
        return float(value)
    except OverflowError:
        return None


def _age(stamp: str) -> str:
    told = age_of(stamp)
    return WRONG_DATE if stamp and told == UNKNOWN else told
