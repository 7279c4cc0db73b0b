"""The life of a container moves only forward, whatever is asked of it; the clock likewise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.model.containers import ContainerState, Life
from actors.runtime.model.errors import WrongState
from actors.runtime.model.pods import Clock
from actors.runtime.state import lifecycle

OPS = st.lists(
    st.tuples(st.sampled_from(["start", "exit", "fail", "lose"]), st.integers(1, 10**6), st.integers(0, 255)),
    max_size=12,
)


def apply(life: Life, op: str, at: int, code: int) -> Life:
    match op:
        case "start":
            return lifecycle.started(life, at)
        case "exit":
            return lifecycle.exited(life, at, code)
        case "fail":
            return lifecycle.start_failed(life, at, "no such file")
        case _:
            return lifecycle.lost(life, at)


@given(OPS)
def test_states_only_move_forward_and_an_end_is_final(ops: list[tuple[str, int, int]]) -> None:
    life = Life(created_at=1000)
    for op, at, code in ops:
        before = life
        try:
            life = apply(life, op, at, code)
        except WrongState:
            assert life is before
        assert life.state.value >= before.state.value
        if before.state is ContainerState.EXITED:
            assert life == before
        assert life.created_at == 1000
        assert (life.finished_at > 0) == (life.state is ContainerState.EXITED)
        assert not life.started_at or life.started_at >= life.created_at
        assert not life.finished_at or life.finished_at >= max(life.started_at, life.created_at)


def test_exit_codes_and_reasons() -> None:
    running = lifecycle.started(Life(created_at=1), 2)
    assert (lifecycle.exited(running, 3, 0).reason, lifecycle.exited(running, 3, 7).reason) == ("Completed", "Error")
    failed = lifecycle.start_failed(Life(created_at=1), 2, "why")
    assert (failed.exit_code, failed.reason, failed.message, failed.started_at) == (128, "StartError", "why", 0)
    assert (lifecycle.lost(running, 3).exit_code, lifecycle.lost(running, 3).reason) == (137, "ContainerStatusUnknown")


def test_only_a_created_container_starts() -> None:
    running = lifecycle.started(Life(created_at=1), 2)
    with pytest.raises(WrongState, match="running"):
        lifecycle.started(running, 3)


@given(st.lists(st.one_of(st.integers(0, 100), st.tuples(st.integers(0, 200))), min_size=1, max_size=50))
def test_clock_is_strictly_increasing_whatever_the_wall_does(steps: list[int | tuple[int]]) -> None:
    wall = iter([step if isinstance(step, int) else 0 for step in steps] + [0])
    clock = Clock(lambda: next(wall))
    floor, last = 0, 0
    for step in steps:
        if isinstance(step, tuple):
            clock.observe(step[0])
            floor = max(floor, step[0])
        now = clock.next()
        assert now > last
        assert now > floor
        last = now
