"""Shared counters of a device pool."""

from typing import Any

from actors.apiserver.api.causes import Cause, invalid, required, too_many
from actors.apiserver.resources.dra.lists import each, repeated, rows, table
from actors.apiserver.resources.dra.names import keyed, label_causes

SETS, USES, COUNTERS = 8, 2, 32


def counter_sets_causes(path: str, sets: Any) -> list[Cause]:
    return _named(path, sets, SETS, "name")


def consumption_causes(path: str, uses: Any) -> list[Cause]:
    return _named(path, uses, USES, "counterSet")


def _named(path: str, values: Any, limit: int, name: str) -> list[Cause]:
    def check(at: str, value: Any) -> list[Cause]:
        held = table(value)
        causes = label_causes(f"{at}.{name}", held.get(name) or "")
        return causes + _counters_causes(f"{at}.counters", table(held.get("counters")))

    causes = each(path, values, limit, check)
    if len(rows(values)) > limit:
        return causes
    return causes + [
        cause._replace(field=f"{cause.field}.{name}")
        for cause in repeated(path, [row.get(name) for row in rows(values)])
    ]


def _counters_causes(path: str, counters: dict[str, Any]) -> list[Cause]:
    if not counters:
        return [required(path)]
    if len(counters) > COUNTERS:
        return [too_many(path, len(counters), COUNTERS)]
    causes = []
    for name in sorted(counters):
        at = keyed(path, name)
        causes += label_causes(at, name) if name else [invalid(at, name, "must not be empty")]
        if table(counters[name]).get("value") is None:
            causes.append(required(f"{at}.value"))
    return causes
