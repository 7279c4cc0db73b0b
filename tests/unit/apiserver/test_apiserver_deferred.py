"""Strategies that are imported with the first write of their kind."""

import subprocess
import sys

import pytest

from actors.apiserver.table import TABLE
from protocols.kinds.served.row import Served
from protocols.kinds.served.strategy import _Deferred, deferred

FLAGS = ("has_status", "has_generation", "parts")
ROWS = [row for row in TABLE.built_in if isinstance(row.strategy, _Deferred)]
WRITTEN = "strategies", "stateful", "jobs", "cron_jobs", "replication"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.plural)
def test_flags_without_import_equal_those_of_the_strategy(row: Served) -> None:
    found = row.strategy.default.__self__  # type: ignore[attr-defined]  # a method of the strategy itself
    assert {flag: getattr(row.strategy, flag) for flag in FLAGS} == {flag: getattr(found, flag) for flag in FLAGS}


def test_nothing_is_imported_before_the_first_write() -> None:
    code = "import sys, actors.apiserver.actor; print(*[name for name in sys.modules if '.resources.' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not [name for name in done.stdout.split() if name.rpartition(".")[2] in WRITTEN]


def test_gate_that_was_set_before_the_import_reaches_the_strategy() -> None:
    strategy = deferred("protocols.kinds.batch.jobs", "JobStrategy")
    strategy.gate = {"a": False}.__getitem__
    assert not strategy.default.__self__.gate("a")  # type: ignore[attr-defined]  # as above
