"""How long changes wait for company: the more come, the longer, and a lone one not at all."""

from hypothesis import given
from hypothesis import strategies as st

from actors.watchcache.service.store_follower import BUSY_BATCH, BatchingWindow

SHORTEST, LONGEST = 0.002, 0.008


def waits(rate: float, rounds: int = 20) -> list[float]:
    """At this many changes a second, evenly, a round taking no time."""
    gathering, now, wait, found = BatchingWindow(SHORTEST, LONGEST), 100.0, 0.0, []
    for _ in range(rounds):
        taken = max(1, int(wait * rate))
        now += max(taken / rate, wait)
        wait = gathering.after(taken, now)
        found.append(wait)
    return found


def test_few_are_not_kept_waiting() -> None:
    assert set(waits(200)) == {0.0}


def test_quick_ones_wait_shortly_and_a_crowd_longer() -> None:
    assert waits(1000)[-1] == SHORTEST
    assert waits(2000)[-5:] == [LONGEST] * 5


def test_after_a_crowd_the_wait_shrinks_and_ends() -> None:
    gathering, now = BatchingWindow(SHORTEST, LONGEST), 0.0
    found = []
    for taken in (9, 9, 9, 9, 1, 1, 1, 1):
        wait = gathering.after(taken, now)
        found.append(wait)
        now += wait
    assert found == [0.002, 0.004, 0.008, 0.008, 0.004, 0.002, 0.002, 0.002]
    assert gathering.after(1, now + 2 * SHORTEST) == 0.0


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 0.1)), max_size=50))
def test_it_is_bounded_and_never_longer_than_twice_the_last(steps: list[tuple[int, float]]) -> None:
    gathering, now, last = BatchingWindow(SHORTEST, LONGEST), 0.0, 0.0
    for taken, pause in steps:
        now += pause
        wait = gathering.after(taken, now)
        assert wait == 0.0 or SHORTEST <= wait <= LONGEST
        assert wait <= max(2 * last, SHORTEST)
        assert taken >= BUSY_BATCH or wait <= max(last, SHORTEST)
        now, last = now + wait, wait
