"""The pace of ticks: seldom where nothing moves, never so seldom that a silence is found later than it would be."""

import math

from hypothesis import given
from hypothesis import strategies as st

from protocols.bus.bus import CALM_AFTER, Pulse, Tempo
from protocols.bus.types import BusOptions

OPTIONS = BusOptions(name="", run_dir=None)  # type: ignore[arg-type]  # the defaults are what matters
TICK, IDLE, STALE = OPTIONS.tick, OPTIONS.idle_tick, OPTIONS.stale_after
LATEST = 4 * TICK
"""From the last tick of an owner until a follower that looks at whole seconds finds it silent, as it ever was."""
CALM = Pulse(moved=7, waiting=False, silence=0.0)


def calmed() -> Tempo:
    tempo = Tempo(TICK, IDLE)
    assert [tempo.next(CALM) for _ in range(CALM_AFTER + 2)][-2:] == [IDLE, IDLE]
    return tempo


def test_ticks_become_seldom_after_a_while_and_frequent_at_once() -> None:
    tempo = Tempo(TICK, IDLE)
    assert [tempo.next(CALM) for _ in range(CALM_AFTER)] == [TICK] * CALM_AFTER
    assert tempo.next(CALM) == IDLE
    for news in (Pulse(8, False, 0.0), Pulse(8, True, 0.0), Pulse(8, False, math.inf)):
        assert tempo.next(news) == TICK
        assert [tempo.next(Pulse(8, False, 0.0)) for _ in range(CALM_AFTER)][-1] == IDLE


def test_a_tick_in_time_is_no_silence() -> None:
    assert calmed().next(Pulse(7, False, IDLE * 1.05)) == IDLE


@given(
    ended=st.integers(0, 20),
    owner_calm=st.booleans(),
    follower_calm=st.booleans(),
    delay=st.floats(0.0005, 0.05),
    late=st.floats(0.0, 0.02),
)
def test_a_silent_owner_is_found_as_soon_whatever_the_paces(
    ended: int, owner_calm: bool, follower_calm: bool, delay: float, late: float
) -> None:
    """Both look at multiples of their pace; `delay`: a tick on its way, `late`: a look after its time."""
    pace = IDLE if owner_calm else TICK
    last = math.floor(ended / pace) * pace
    tempo = calmed() if follower_calm else Tempo(TICK, 0.0)
    now, found = last, None
    while found is None:
        silence = now + late - (last + delay)
        if silence > STALE:
            found = now
        step = tempo.next(Pulse(7, False, max(0.0, silence)))
        now = math.floor((now + step) / step) * step
    assert found - last <= LATEST


@given(late=st.floats(0.0, 1.4), follower_calm=st.booleans())
def test_a_tick_that_is_a_second_late_is_no_silence(late: float, follower_calm: bool) -> None:
    """An owner at the idle pace; the looks in between find it well."""
    heard, looks = 0.0, IDLE if follower_calm else TICK
    at = looks
    while at < IDLE + late:
        assert at - heard <= STALE
        at += looks
