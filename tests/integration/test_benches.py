"""Each bench runs to its end, with sizes that take a few seconds: targets do not count.

Those that start whole planes or go on for long are heavy; that their short sizes fit the benches is checked always
(tests/unit/cli/test_bench_command.py).
"""

import math

import pytest

from tests.bench.main import BENCHES
from tests.bench.short import shortened

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
LIGHT = {"bus", "latency", "writes", "list", "memory", "devices.allocations", "devices.registration", "frontdoor"}
LIGHT |= {"scheduler", "scheduler.pods", "tracker"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in LIGHT else pytest.mark.heavy) for name in BENCHES]
)
def test_bench_measures_every_row(name: str) -> None:
    with shortened(name):
        rows = BENCHES[name]()
    assert rows
    assert len({row.name for row in rows}) == len(rows), "a row is known by its name"
    lost = [row.name for row in rows if row.value is None or not math.isfinite(row.value)]
    assert not lost
