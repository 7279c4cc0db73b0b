"""docs/reference/api.md names every resource, subresource, verb, field selector and parameter that is served."""

import re
from pathlib import Path

from actors.apiserver.table import TABLE
from protocols.kinds.openapi.documents import PARAMETERS
from protocols.kinds.served.row import ALL_VERBS, Served

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "api.md").read_text()


def line_of(row: Served) -> str:
    scope = "namespaced" if row.namespaced else "cluster"
    subresources = ", ".join(sub.name for sub in row.subresources)
    missing = "" if set(row.verbs) == set(ALL_VERBS) else ", ".join(row.verbs)
    prefixes = {path.rpartition(".")[0] for path in row.fields}
    grouped = {p for p in prefixes if sum(path.startswith(f"{p}.") for path in row.fields) > 5 and p != "spec"}
    fields = [f"{prefix}.*" for prefix in sorted(grouped)]
    fields += [path for path in row.fields if path.rpartition(".")[0] not in grouped]
    cells = (row.api_version, row.plural, ", ".join(row.short_names), scope, subresources, missing, ", ".join(fields))
    return re.sub(r" +", " ", f"| {' | '.join(cells)} |")


def test_every_resource_has_its_line() -> None:
    """The table is these lines; what fails here is what to put there."""
    lines = [line_of(row) for row in sorted(TABLE.built_in, key=lambda row: (row.group, row.version, row.plural))]
    assert "\n".join(lines) in PAGE, "\n".join(lines)


def test_every_parameter_is_documented() -> None:
    for names in PARAMETERS.values():
        for name in names:
            assert re.search(rf"\b{name}\b", PAGE), name
