"""Work of many connections in the turns of a loop."""

import asyncio

import pytest

from protocols.serving import turns as turns_module
from protocols.serving.turns import Turns


async def turn() -> None:
    await asyncio.sleep(0)


async def test_turn_has_time_until_it_took_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    assert [turns.over() for _ in range(3)] == [False] * 3
    await turn()
    monkeypatch.setattr(turns_module, "TURN_S", 0.0)
    for _ in range(2):
        assert [turns.over() for _ in range(3)] == [False, True, True]
        await turn()


async def test_work_for_later_is_spread_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "TURN_S", 0.0)
    turns, done = Turns(), list[int]()
    for number in range(3):
        turns.later(lambda number=number: done.append(number))  # type: ignore[misc]
    seen = []
    while len(done) < 3:
        await turn()
        seen.append(list(done))
    assert seen == [[0], [0, 1], [0, 1, 2]]


async def test_work_that_asks_for_more_waits_for_the_next_turn() -> None:
    turns, done = Turns(), list[int]()

    def work() -> None:
        done.append(1)
        if len(done) < 3:
            turns.later(work)

    turns.later(work)
    await turn()
    assert done == [1]
    while len(done) < 3:
        await turn()
