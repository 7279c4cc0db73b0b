"""Work beside the event loop: what leaves it, in which order, and what is refused."""

import asyncio
import threading

import pytest

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.request import workers
from actors.apiserver.api.request.workers import LONG, LOOP_UNITS, QUEUED_PER_USER, Workers, offload
from protocols.kinds.check.budget import Budget, BudgetSpent, DeadlinePassed, spend, within


def _thread() -> str:
    return threading.current_thread().name


async def test_beside_short_work_stays_in_the_loop_and_long_work_leaves_it() -> None:
    assert await offload(LONG, _thread) == _thread()
    assert await offload(LONG + 1, _thread) != _thread()


async def test_beside_short_work_that_spends_too_much_starts_over_in_a_thread() -> None:
    tried: list[str] = []

    def costly() -> str:
        tried.append(_thread())
        spend(LOOP_UNITS + 1)
        return "done"

    assert await offload(1, costly) == "done"
    assert tried[0] == _thread() != tried[1]


async def test_beside_work_beyond_any_budget_is_refused() -> None:
    with pytest.raises(BudgetSpent):
        await offload(1, lambda: spend(10**12))


def test_budget_after_its_deadline_is_refused() -> None:
    with within(Budget(-1.0)), pytest.raises(DeadlinePassed):
        spend(1)


async def test_workers_users_with_long_queues_do_not_hold_up_others() -> None:
    pool, free, order = Workers(threads=2), threading.Event(), list[str]()

    async def ask(name: str, work: object) -> None:
        workers.user.set(name)

        def run() -> None:
            if work == "slow":
                free.wait(30)
            order.append(name)

        await pool.run(run)

    greedy = [asyncio.create_task(ask("greedy", "slow")) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.create_task(ask("modest", "quick")), 30)
    assert order == ["modest"]
    free.set()
    await asyncio.gather(*greedy)
    assert order == ["modest", *["greedy"] * 5]


async def test_workers_full_queue_of_a_user_is_429_for_that_user_alone() -> None:
    pool, free = Workers(threads=2), threading.Event()

    async def ask(name: str) -> None:
        workers.user.set(name)
        await pool.run(lambda: free.wait(30))

    waiting = [asyncio.create_task(ask("greedy")) for _ in range(1 + QUEUED_PER_USER)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await asyncio.create_task(ask("greedy"))
    other = asyncio.create_task(ask("modest"))
    await asyncio.sleep(0)
    assert not other.done()
    free.set()
    await asyncio.gather(other, *waiting)


async def test_workers_work_whose_request_is_over_never_begins() -> None:
    pool, free, begun = Workers(threads=1), threading.Event(), list[int]()
    first = asyncio.create_task(pool.run(lambda: free.wait(30)))
    await asyncio.sleep(0)
    second = asyncio.create_task(pool.run(lambda: begun.append(2)))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    free.set()
    await first
    await pool.run(lambda: begun.append(3))
    assert begun == [3]
