"""Many waits on one timer: each ends in its own time, and an end in time leaves nothing behind."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.process.deadlines import Deadlines


async def _after(seconds: list[float], removed: set[int]) -> list[int]:
    deadlines, told = Deadlines(), list[int]()
    numbers = [deadlines.add(each, told.append, place) for place, each in enumerate(seconds)]
    for place in removed & set(range(len(numbers))):
        deadlines.remove(numbers[place])
    await asyncio.sleep(max(seconds, default=0.0) + 0.05)
    return told


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.03]), max_size=6), st.sets(st.integers(0, 5)))
async def test_each_file_not_removed_is_reported_once(seconds: list[float], removed: set[int]) -> None:
    told = await _after(seconds, removed)
    assert sorted(told) == [place for place in range(len(seconds)) if place not in removed]


async def test_an_earlier_one_does_not_wait_for_those_before_it() -> None:
    deadlines, told = Deadlines(), asyncio.Event()
    deadlines.add(3600.0, lambda _: None, None)
    deadlines.add(0.01, lambda event: event.set(), told)
    await asyncio.wait_for(told.wait(), 15)
    deadlines.close()


async def test_a_limit_is_a_timeout_of_its_task() -> None:
    deadlines, task = Deadlines(), asyncio.current_task()
    assert task is not None
    with deadlines.within(3600.0, task):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError), deadlines.within(0.01, task):
        await asyncio.sleep(3600)
    assert not task.cancelling()


async def test_who_is_cancelled_by_others_is_not_late() -> None:
    async def limited(deadlines: Deadlines, entered: asyncio.Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        with deadlines.within(3600.0, task):
            entered.set()
            await asyncio.sleep(3600)

    entered = asyncio.Event()
    task = asyncio.create_task(limited(Deadlines(), entered))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_limit_ends_what_is_inside_alone() -> None:
    deadlines, task = Deadlines(), asyncio.current_task()
    assert task is not None
    with deadlines.within(3600.0, task):
        with pytest.raises(TimeoutError), deadlines.within(0.01, task):
            await asyncio.sleep(3600)
        await asyncio.sleep(0)
