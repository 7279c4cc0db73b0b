from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.times import format_duration
from protocols.lifecycle.pods.types import SECOND, BackoffEntry
from protocols.lifecycle.restarts.backoff import MAXIMUM_NS, advance, ready_ns, recover, recover_all
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

S = SECOND


def test_first_restart_is_immediate_then_10_20_40_up_to_300() -> None:
    entry, finished, delays = None, 1000 * S, []
    for _ in range(8):
        start = max(finished, ready_ns(entry, finished, finished))
        delays.append((start - finished) // S)
        entry = advance(entry, finished, start)
        finished = start + S
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_resets_the_backoff() -> None:
    entry = advance(advance(None, 0, S), 2 * S, 12 * S)
    assert entry.delay_ns == 20 * S
    late = 12 * S + 601 * S
    assert ready_ns(entry, late, late) == 0
    assert advance(entry, late, late).delay_ns == 10 * S


DAY = 86_400 * S


def test_clock_that_went_back_after_a_crash_ends_the_wait() -> None:
    entry = advance(None, 2 * DAY, 2 * DAY + S)
    assert ready_ns(entry, 2 * DAY + 2 * S, 2 * DAY + 3 * S) == 2 * DAY + 12 * S
    assert ready_ns(entry, 2 * DAY + 2 * S, DAY) == 0


def test_crashes_that_a_runtime_stamps_in_the_future_are_backed_off() -> None:
    """Stamps of the embedded runtime never go back: after a step of the clock by a day they are a day ahead."""
    entry, now, delays = None, DAY, []
    for _ in range(8):
        start = max(now, ready_ns(entry, now + DAY, now))
        delays.append((start - now) // S)
        entry = advance(entry, now + DAY, start)
        now = start + S
    assert delays == [0, 9, 19, 39, 79, 159, 299, 299]


def test_another_image_begins_anew() -> None:
    entry = advance(None, 0, S, "a")
    assert advance(entry, 2 * S, 12 * S, "b").delay_ns == 10 * S


def test_recovered_from_history() -> None:
    assert recover(0, S, "h") is None
    recovered = [entry.delay_ns // S for n in (1, 2, 3, 9, 10_000) if (entry := recover(n, S, "h"))]
    assert recovered == [10, 20, 40, 300, 300]


def history(ready: bool, attempt: int, restarts: int) -> dict[str, BackoffEntry]:
    box = SandboxStatus(id="s", ready=ready, attempt=attempt, created_ns=S)
    run = ContainerStatus("c", "s", "a", restarts, "exited", S, S, 50 * S, 143, restart_count=restarts, spec_hash="h")
    return recover_all(PodStatus(uid="u", sandboxes=(box,), containers=(run,)))


def test_what_ended_with_its_sandbox_did_not_crash() -> None:
    entry = history(ready=False, attempt=4, restarts=4)["a"]
    assert ready_ns(entry, 50 * S, 50 * S) == 50 * S, "at once"
    assert advance(entry, 60 * S, 60 * S, "h").delay_ns == 10 * S, "its first crash after that is the first"


def test_restarts_for_new_sandboxes_are_not_counted_as_crashes() -> None:
    assert history(ready=True, attempt=4, restarts=4) == {}
    assert history(ready=True, attempt=4, restarts=6)["a"].delay_ns == 20 * S


def test_described_as_users_know_it() -> None:
    delays = (10, 80, 300, 3600, 0.89, 27.88, 59.9996)
    assert [format_duration(n) for n in delays] == ["10s", "1m20s", "5m0s", "1h0m0s", "890ms", "27.88s", "1m0s"]


@given(st.lists(st.integers(0, 900), min_size=1, max_size=30))
def test_delay_is_bounded_whatever_the_runs(runs: list[int]) -> None:
    entry, now = None, 0
    for run in runs:
        finished = now + run * S
        ready = ready_ns(entry, finished, finished)
        assert ready == 0 or finished < ready <= finished + MAXIMUM_NS
        now = max(ready, finished)
        entry = advance(entry, finished, now)
