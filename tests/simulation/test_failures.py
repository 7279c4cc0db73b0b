"""Which failures of tasks a fault of the disk excuses."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.world.failures import failures

EXCUSED, ALIVE = 5.0, math.inf


@pytest.mark.parametrize(
    ("code", "ended_at", "promises"),
    [
        (1, EXCUSED, []),
        (1, EXCUSED + 1, ["no task ends unheard", "no process fails"]),
        (0, EXCUSED, ["no task ends unheard"]),
        (0, ALIVE, ["no task ends unheard"]),
    ],
    ids=["fails by the fault", "fails later", "is killed meanwhile", "lives"],
)
def test_a_fault_excuses_tasks_of_the_process_that_it_ends(code: int, ended_at: float, promises: list[str]) -> None:
    process = SimpleNamespace(name="store", code=code, ended_at=ended_at, failures=Counter({"store call": 1}))
    world: Any = SimpleNamespace(graveyard=[process], processes={}, errors=[], excused=lambda at: at == EXCUSED)
    assert [each.promise for each in failures(world)] == promises
