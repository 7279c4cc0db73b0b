from types import SimpleNamespace
from typing import Any

from tests.simulation.world.loop import SimLoop


def loop() -> SimLoop:
    world: Any = SimpleNamespace(now=1_000.0)
    process: Any = SimpleNamespace(clock=SimpleNamespace(boot=5.0))
    return SimLoop(world, process)


def test_timers_run_in_order_of_time_and_cancelled_ones_never() -> None:
    made, done = loop(), list[str]()
    made.call_later(0.0, done.append, "late")
    made.call_at(1_004.0, done.append, "early")
    made.call_later(0.0, done.append, "cancelled").cancel()
    made.turn()
    assert done == ["early", "late"]
    made.close()


def test_cancelled_timers_are_dropped_before_they_are_due() -> None:
    made = loop()
    timers = [made.call_later(60.0, print) for _ in range(300)]
    for timer in timers[1:]:
        timer.cancel()
    made.turn()
    assert made._scheduled == timers[:1]
    assert made.due_at() == timers[0].when()
    made.close()


def test_sets_of_futures_have_the_order_of_their_first_hash() -> None:
    made = loop()
    futures = [made.create_future() for _ in range(50)]
    first = hash(futures[0])
    assert [hash(future) - first for future in futures] == list(range(50))
    made.close()
