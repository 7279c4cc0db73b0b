"""One seed gives one run: the same trace in two operating system processes."""

import tempfile

import pytest

from tests.simulation.alone import outcome
from tests.simulation.world.ordered import _order


@pytest.mark.parametrize(
    ("profile", "seed"),
    [("control", 1), ("control", 4), ("plane", 5)],
    ids=["embedded store", "model of an etcd", "two nodes"],
)
def test_one_seed_in_two_processes_gives_one_trace(profile: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        first = outcome(profile, seed, 4)
        second = outcome(profile, seed, 4, TMPDIR=directory, UNRELATED="x" * 10_000)
    assert first.broken == second.broken == []
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
