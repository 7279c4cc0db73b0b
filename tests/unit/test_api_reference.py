"""docs/reference/api.md says what the API server serves: each resource, verb and parameter, no more and no less."""

import re
from pathlib import Path

from actors.apiserver.actor import TABLE
from actors.apiserver.api.resource import ALL_VERBS, Resource
from actors.apiserver.http.endpoints.openapi import PARAMETERS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text()
Line = tuple[str, ...]


def lines(title: str) -> list[Line]:
    """Cells of the first table below a title, without its head."""
    part = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in row) for row in rows[2:]]


def told(row: Resource) -> Line:
    fields = sorted({re.sub(r"^(involvedObject|regarding)\..*", r"\1.*", name) for name in row.fields})
    verbs = "" if set(row.verbs) == set(ALL_VERBS) else ", ".join(sorted(row.verbs))
    subresources = ", ".join(sorted(sub.name for sub in row.subresources))
    scope = "namespaced" if row.namespaced else "cluster"
    return row.api_version, row.plural, ", ".join(row.short_names), scope, subresources, verbs, ", ".join(fields)


def in_order(line: Line) -> Line:
    return (*line[:6], ", ".join(sorted(filter(None, line[6].split(", ")))))


def test_every_resource_with_its_verbs_and_selectors() -> None:
    assert sorted(map(in_order, lines("Resources"))) == sorted(map(told, TABLE.built_in))


def test_every_parameter() -> None:
    written = {name for line in lines("Parameters") for name in re.findall(r"[a-zA-Z]+", line[1].split("=")[0])}
    served = {name for names in PARAMETERS.values() for name in names}
    assert not served - written
    assert written - served == {"pretty", "timeout", "or", "orphanDependents", "preconditions", "body"}
