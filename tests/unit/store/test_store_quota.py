"""History gives way before writes do, and writes before anything else."""

from hypothesis import given
from hypothesis import strategies as st

from actors.store.mvcc.retention import MEASURE_BYTES, PRESSURE_HISTORY, Quota


@given(st.integers(1, 10**10), st.integers(0, 2 * 10**10), st.integers(0, 10**6))
def test_quota_history_shrinks_as_space_runs_out(limit: int, used: int, most: int) -> None:
    quota = Quota(limit)
    quota.measured(used)
    assert quota.exceeded == (used >= limit)
    assert quota.under_pressure or not quota.exceeded
    kept = quota.history(most)
    assert kept == (0 if quota.exceeded else min(most, PRESSURE_HISTORY) if quota.under_pressure else most)


def test_quota_is_measured_at_start_after_much_and_while_exceeded() -> None:
    quota = Quota(10 * MEASURE_BYTES)
    seen = [quota.due]
    quota.measured(0)
    for written in (MEASURE_BYTES - 1, 1):
        quota.wrote(written)
        seen.append(quota.due)
    quota.measured(10 * MEASURE_BYTES)
    assert [*seen, quota.due] == [True, False, True, True]


def test_quota_of_zero_is_none() -> None:
    quota = Quota(0)
    quota.wrote(1 << 60)
    assert (quota.due, quota.exceeded, quota.under_pressure) == (False, False, False)
