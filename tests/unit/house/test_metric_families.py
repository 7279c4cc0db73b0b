"""Each metric of the product is declared once, and the reference is written from the declarations."""

import ast
from pathlib import Path

import pytest

from deploy.monitoring.reference import Row, declaring, page, rows
from tests.support.product import product_modules

MAKERS = {
    *("Counter", "Gauge", "Histogram", "Summary", "Info", "PlainCounter", "Tally", "WeightedHistogram"),
    *("CounterMetricFamily", "GaugeMetricFamily", "HistogramMetricFamily", "Metric"),
}
LIBRARIES = ("prometheus_client", "protocols.actor.metrics", "actors.apiserver.api.counters")
TYPES = ("protocols/actor/metrics.py", "actors/apiserver/api/counters.py")
"""They define kinds of metrics; the name and the help of a metric are passed to them."""


def undeclared(path: Path) -> list[str]:
    """Return the places where a metric is made of anything but the fields of a declared family."""
    if not any(name in (text := path.read_text()) for name in LIBRARIES):
        return []
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    makers = {a.name for node in imports if (node.module or "").startswith(LIBRARIES) for a in node.names} & MAKERS
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in makers]
    return [f"{path}:{call.lineno}" for call in made if not (call.args and isinstance(call.args[0], ast.Starred))]


def test_metric_is_made_of_a_declared_family() -> None:
    modules = [path for path in product_modules() if not str(path).endswith(TYPES)]
    assert [place for path in modules for place in undeclared(path)] == []


def test_undeclared_metric_is_found(tmp_path: Path) -> None:
    module = tmp_path / "metrics.py"
    module.write_text('from prometheus_client import Counter\nA = Counter("a_total", "A.")\nB = Counter(*B_FAMILY)\n')
    assert undeclared(module) == [f"{module}:2"]


@pytest.fixture(scope="module")
def declared() -> list[Row]:
    return rows()


def test_family_is_declared_once(declared: list[Row]) -> None:
    sources = [path.read_text() for path in declaring()]
    for _, family in declared:
        assert sum(text.count(f'"{family.name}"') for text in sources) <= 1, family.name


def test_help_is_a_sentence(declared: list[Row]) -> None:
    for _, family in declared:
        assert family.help.endswith("."), family
        assert family.help[0].isupper() or family.help[0].isdigit(), family
        assert len(family.help.split()) >= 4, family


def test_counter_of_our_own_ends_in_total(declared: list[Row]) -> None:
    ours = [family for _, family in declared if family.name.startswith("nodeplane_")]
    assert all(family.name.endswith("_total") == (family.kind == "counter") for family in ours)


def test_page_has_every_family(declared: list[Row]) -> None:
    text = page("<!-- metrics: api -->\n<!-- end -->\n<!-- metrics: others -->\n<!-- end -->\n")
    assert all(f"| `{family.name}` |" in text for _, family in declared)
    assert text.count("\n| `") == len(declared) > 150
