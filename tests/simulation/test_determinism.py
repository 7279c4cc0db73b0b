"""One seed gives one run: the same trace in two operating system processes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from tests.simulation.model import Outcome
from tests.simulation.world.ordered import _order

REPOSITORY = Path(__file__).resolve().parents[2]


def outcome(profile: str, seed: int, **environment: str) -> Outcome:
    command = [sys.executable, "-m", "tests.simulation.one", profile, str(seed), "4"]
    ran = subprocess.run(
        command,
        capture_output=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout.decode()[-2000:] + ran.stderr.decode()[-2000:]
    return msgspec.json.decode(ran.stdout, type=Outcome)


@pytest.mark.parametrize(
    ("profile", "seed"),
    [("control", 1), ("control", 4), ("plane", 5)],
    ids=["embedded store", "model of an etcd", "two nodes"],
)
def test_one_seed_in_two_processes_gives_one_trace(profile: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        first, second = outcome(profile, seed), outcome(profile, seed, TMPDIR=directory, UNRELATED="x" * 10_000)
    assert first.turns > 1_000
    assert first.messages > 1_000
    assert (first.trace, first.counts, first.faults) == (second.trace, second.counts, second.faults)


class _Slotted:
    __slots__ = ("name",)

    def __init__(self, name: int) -> None:
        self.name = name


def test_sets_of_objects_with_slots_have_the_order_of_first_use() -> None:
    _order(_Slotted)
    made = [_Slotted(number) for number in range(100)]
    assert [hash(each) - hash(made[0]) for each in made] == list(range(100))
