"""How long changes wait for company: the more come, the longer, and a lone one not at all."""

from hypothesis import given
from hypothesis import strategies as st

from actors.watchcache.shell.store_follower import BUSY_BATCH, BatchingWindow

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


def test_window_few_changes_do_not_wait() -> None:
    assert set(waits(200)) == {0.0}


def test_window_many_changes_wait_longer() -> None:
    assert waits(1000)[-1] == SHORTEST
    assert waits(2000)[-5:] == [LONGEST] * 5


def test_window_load_ends_wait_shrinks() -> None:
    gathering, now = BatchingWindow(SHORTEST, LONGEST), 0.0
    found = []
    for taken in (9, 9, 9, 9, 1, 1, 1, 1):
        wait = gathering.after(taken, now)
        found.append(wait)
        now += wait
    assert found == [0.002, 0.004, 0.008, 0.008, 0.004, 0.002, 0.002, 0.002]
    assert gathering.after(1, now + 2 * SHORTEST) == 0.0


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 0.1)), max_size=50))
def test_window_any_load_is_bounded(steps: list[tuple[int, float]]) -> None:
    gathering, now, last = BatchingWindow(SHORTEST, LONGEST), 0.0, 0.0
    for taken, pause in steps:
        now += pause
        wait = gathering.after(taken, now)
        assert wait == 0.0 or SHORTEST <= wait <= LONGEST
        assert wait <= max(2 * last, SHORTEST)
        assert taken >= BUSY_BATCH or wait <= max(last, SHORTEST)
        now, last = now + wait, wait
