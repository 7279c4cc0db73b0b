from hypothesis import given
from hypothesis import strategies as st

from actors.podworker.backoff import MAXIMUM_NS, advance, describe, ready_ns, recover
from actors.podworker.types import SECOND

S = SECOND


def test_first_restart_is_immediate_then_10_20_40_up_to_300():
    entry, finished, delays = None, 1000 * S, []
    for _ in range(8):
        start = max(finished, ready_ns(entry, finished))
        delays.append((start - finished) // S)
        entry = advance(entry, finished, start)
        finished = start + S
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_resets_the_backoff():
    entry = advance(advance(None, 0, S), 2 * S, 12 * S)
    assert entry.delay_ns == 20 * S
    late = 12 * S + 601 * S
    assert ready_ns(entry, late) == 0
    assert advance(entry, late, late).delay_ns == 10 * S


def test_another_image_begins_anew():
    entry = advance(None, 0, S, "a")
    assert advance(entry, 2 * S, 12 * S, "b").delay_ns == 10 * S


def test_recovered_from_history():
    assert recover(0, S, "h") is None
    assert [recover(n, S, "h").delay_ns // S for n in (1, 2, 3, 9, 10_000)] == [10, 20, 40, 300, 300]


def test_described_as_users_know_it():
    assert [describe(n * S) for n in (10, 80, 300)] == ["10s", "1m20s", "5m0s"]


@given(st.lists(st.integers(0, 900), min_size=1, max_size=30))
def test_delay_is_bounded_whatever_the_runs(runs):
    entry, now = None, 0
    for run in runs:
        finished = now + run * S
        ready = ready_ns(entry, finished)
        assert ready == 0 or finished < ready <= finished + MAXIMUM_NS
        now = max(ready, finished)
        entry = advance(entry, finished, now)
