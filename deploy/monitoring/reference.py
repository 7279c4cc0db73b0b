"""The tables of docs/reference/metrics.md, written from the families that modules declare.

A table stands between `<!-- metrics: NAME -->` and `<!-- end -->`.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from protocols.process.families import CounterFamily, Declared, GaugeFamily, HistogramFamily

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "reference" / "metrics.md"
TABLE = re.compile(r"(<!-- metrics: (\w+) -->)\n.*?(?=<!-- end -->)", re.DOTALL)
API = ("apiserver", "watchcache")
"""Actors whose metrics have a table of their own."""
EVERY = "every"
"""Stands for the actor of a family that each process has."""


class Row(NamedTuple):
    actor: str
    family: Declared


def declaring() -> Iterator[Path]:
    """Yield the modules that import the classes of families."""
    for folder in ("actors", "protocols", "supervisor"):
        for path in sorted((REPO / folder).rglob("*.py")):
            text = path.read_text() if "templates" not in path.parts else ""
            if "from protocols.process.families import" in text or path.name == "families.py":
                yield path


def rows() -> list[Row]:
    """Return each declared family once, under the module that contains its declaration."""
    row_by_name: dict[str, Row] = {}
    for path in declaring():
        parts = path.relative_to(REPO).with_suffix("").parts
        actor = parts[1] if parts[0] == "actors" else "supervisor" if parts[0] == "supervisor" else EVERY
        for family in _families(vars(import_module(".".join(parts))).values()):
            if actor == EVERY or family.name not in row_by_name:
                row_by_name[family.name] = Row(actor, family)
    return sorted(row_by_name.values(), key=lambda row: (row.family.name.startswith("nodeplane_"), row.family.name))


def _families(values: Iterable[object]) -> Iterator[Declared]:
    """Yield the families among the values, and in the tuples and dictionaries among them."""
    for value in list(values):
        if isinstance(value, CounterFamily | GaugeFamily | HistogramFamily):
            yield value
        elif isinstance(value, tuple):
            yield from _families(value)
        elif isinstance(value, dict):
            yield from _families(value.values())


def api_table(found: Iterable[Row]) -> list[str]:
    kept = [row.family for row in found if row.actor in API]
    cells = [f"| `{family.name}` | {family.kind} | {', '.join(family.labels)} | {family.help} |" for family in kept]
    return ["| name | type | labels | meaning |", "|---|---|---|---|", *cells]


def others_table(found: Iterable[Row]) -> list[str]:
    kept = [row for row in found if row.actor not in API]
    cells = [f"| `{f.name}` | {actor} | {f.kind} | {', '.join(f.labels)} | {f.help} |" for actor, f in kept]
    return ["| name | process | type | labels | meaning |", "|---|---|---|---|---|", *cells]


TABLES = {"api": api_table, "others": others_table}


def page(text: str) -> str:
    """Return the page with its tables as declared."""
    table_rows = rows()
    return TABLE.sub(lambda match: "\n".join([match[1], *TABLES[match[2]](table_rows), ""]), text)
