"""Which failures of tasks a fault of the disk excuses."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.world.failures import failures
from tests.simulation.world.world import START

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
    process = SimpleNamespace(
        name="store", code=code, ended_at=ended_at, failures=Counter({"store call": 1}), paused_until=0.0
    )
    world: Any = SimpleNamespace(graveyard=[process], processes={}, errors=[], excused=lambda at: at == EXCUSED)
    assert [failure.promise for failure in failures(world)] == promises


@pytest.mark.parametrize(("paused_until", "promises"), [(6.2, 0), (1.8, 2)])
def test_a_process_that_is_paused_while_it_stops_may_take_longer(paused_until: float, promises: int) -> None:
    error = (6.9, "apiserver-1", "stop failed: TimeoutError: did not stop within 5 s")
    process = SimpleNamespace(
        name="apiserver-1", code=1, ended_at=6.9, failures=Counter[str](), paused_until=START + paused_until
    )
    world: Any = SimpleNamespace(graveyard=[process], processes={}, errors=[error], excused=lambda at: False)
    assert len(list(failures(world))) == promises
