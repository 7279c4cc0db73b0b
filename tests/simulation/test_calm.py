"""When followers must know that they are stale."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.control.calm import Calm


def _world() -> Any:
    later: list[Any] = []
    return SimpleNamespace(
        now=0.0,
        elapsed=0.0,
        processes={},
        on_end=[],
        later=later,
        at=lambda delay, process, work: later.append(work),
    )


def _process(name: str, pid: int, **notes: Any) -> Any:
    return SimpleNamespace(name=name, pid=pid, turns=0, paused_until=0.0, notes=notes)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(("turns", "broken"), [(0, True), (5, False)])
def test_owner_that_ran_for_a_moment_between_two_observations_was_heard(turns: int, ends: bool, broken: bool) -> None:
    world = _world()
    owner = world.processes["watchcache"] = _process("watchcache", 1)
    world.processes["follower"] = _process("follower", 2, following=SimpleNamespace(synced=True))
    calm = Calm(world, "watchcache")
    owner.paused_until = 100.0
    for now in (1.0, 3.0, 5.0, 7.0):
        world.now = now
        owner.turns += turns if now == 5.0 else 0
        if now == 5.0 and ends:
            world.on_end[0](world.processes.pop("watchcache"), 1, 0)
        world.later.pop()()
    assert bool(calm.broken) is broken
