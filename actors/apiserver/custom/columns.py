"""The columns of `kubectl get` that a definition asks for."""

from typing import Any

from actors.apiserver.catalog.resource import Column
from actors.apiserver.custom.jsonpath import JsonPath, shown
from actors.apiserver.objects.paths import Obj, text
from actors.apiserver.resources.cells import AGE, NAME, age_of


def columns_of(wanted: tuple[Obj, ...]) -> tuple[Column, ...]:
    if not wanted:
        return (NAME, AGE)
    return (NAME, *map(_column, wanted))


def _column(wanted: Obj) -> Column:
    path, kind = JsonPath(text(wanted, "jsonPath")), text(wanted, "type")
    told = text(wanted, "description") or f"Custom resource definition column (in JSONPath format): {path.text}"
    return Column(
        name=text(wanted, "name"),
        cell=lambda obj: _cell(path.first(obj), kind),
        priority=int(wanted.get("priority") or 0),
        type=kind,
        format=text(wanted, "format"),
        description=told,
    )


def _cell(value: Any, kind: str) -> Any:
    """None where the value is not of the column's type: kubectl shows nothing there."""
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return float(value) if number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date":
        return age_of(value) if isinstance(value, str) else None
    return shown(value)
