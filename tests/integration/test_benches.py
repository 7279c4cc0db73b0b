"""Each bench runs to its end, with sizes that take a few seconds: targets do not count.

They are heavy; that their short sizes fit the benches is checked always (tests/unit/cli/test_bench_command.py).
"""

import math

import pytest

from tests.bench.main import BENCHES
from tests.bench.short import shortened


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", BENCHES)
def test_bench_measures_every_row(name: str) -> None:
    with shortened(name):
        rows = BENCHES[name]()
    assert rows
    assert len({row.name for row in rows}) == len(rows), "a row is known by its name"
    lost = [row.name for row in rows if row.value is None or not math.isfinite(row.value)]
    assert not lost
