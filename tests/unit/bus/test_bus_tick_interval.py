"""Interval of ticks: long while nothing changes, but never so long that silence is detected later."""

import math

from hypothesis import given
from hypothesis import strategies as st

from protocols.bus.bus import IDLE_AFTER, Activity, TickInterval
from protocols.bus.types import BusOptions

OPTIONS = BusOptions(name="", run_dir=None)  # type: ignore[arg-type]  # the defaults are what matters
TICK, IDLE, STALE = OPTIONS.tick, OPTIONS.idle_tick, OPTIONS.stale_after
LATEST = 4 * TICK
"""From the last tick of an owner until a follower that checks at whole seconds finds it silent."""
UNCHANGED = Activity(changes=7, waiting=False, silence=0.0)


def idle_interval() -> TickInterval:
    interval = TickInterval(TICK, IDLE)
    assert [interval.next(UNCHANGED) for _ in range(IDLE_AFTER + 2)][-2:] == [IDLE, IDLE]
    return interval


def test_tick_interval_idle_grows_and_change_resets() -> None:
    interval = TickInterval(TICK, IDLE)
    assert [interval.next(UNCHANGED) for _ in range(IDLE_AFTER)] == [TICK] * IDLE_AFTER
    assert interval.next(UNCHANGED) == IDLE
    for news in (Activity(8, False, 0.0), Activity(8, True, 0.0), Activity(8, False, math.inf)):
        assert interval.next(news) == TICK
        assert [interval.next(Activity(8, False, 0.0)) for _ in range(IDLE_AFTER)][-1] == IDLE


def test_silence_tick_in_time_is_none() -> None:
    assert idle_interval().next(Activity(7, False, IDLE * 1.05)) == IDLE


@given(
    ended=st.integers(0, 20),
    owner_idle=st.booleans(),
    follower_idle=st.booleans(),
    delay=st.floats(0.0005, 0.05),
    late=st.floats(0.0, 0.02),
)
def test_silence_any_interval_is_found_as_soon(
    ended: int, owner_idle: bool, follower_idle: bool, delay: float, late: float
) -> None:
    """Both check at multiples of their interval; `delay`: of a tick under way, `late`: of a check."""
    pace = IDLE if owner_idle else TICK
    last = math.floor(ended / pace) * pace
    interval = idle_interval() if follower_idle else TickInterval(TICK, 0.0)
    now, found = last, None
    while found is None:
        silence = now + late - (last + delay)
        if silence > STALE:
            found = now
        step = interval.next(Activity(7, False, max(0.0, silence)))
        now = math.floor((now + step) / step) * step
    assert found - last <= LATEST


@given(late=st.floats(0.0, 1.4), follower_idle=st.booleans())
def test_silence_tick_a_second_late_is_none(late: float, follower_idle: bool) -> None:
    """An owner at the idle pace; the looks in between find it well."""
    heard, looks = 0.0, IDLE if follower_idle else TICK
    at = looks
    while at < IDLE + late:
        assert at - heard <= STALE
        at += looks
