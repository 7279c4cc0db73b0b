"""Silence of the forkserver: what is done about it, and when."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.base.groups import SupervisionLimits
from supervisor.tree.tree import ForkserverLiveness, LivenessVerdict

LIMITS = SupervisionLimits()


def loaded(now: float = 0.0) -> ForkserverLiveness:
    pulse = ForkserverLiveness(LIMITS, now)
    pulse.on_pong(False, now)
    return pulse


def test_pulse_importing_has_start_time() -> None:
    pulse = ForkserverLiveness(LIMITS, 0.0)
    assert pulse.verdict(19.9) is LivenessVerdict.FINE
    pulse.on_pong(True, 19.9)
    assert pulse.verdict(39.8) is LivenessVerdict.FINE
    assert pulse.verdict(40.0) is LivenessVerdict.WAKE


def test_pulse_silence_wakes_then_kills() -> None:
    pulse = loaded()
    said = [pulse.verdict(float(second)) for second in range(12)]
    assert said == [LivenessVerdict.FINE] * 5 + [LivenessVerdict.WAKE] + [LivenessVerdict.FINE] * 4 + [
        LivenessVerdict.KILL,
        LivenessVerdict.FINE,
    ]


def test_pulse_answer_after_wake_is_left_alone() -> None:
    pulse = loaded()
    assert pulse.verdict(5.0) is LivenessVerdict.WAKE
    pulse.on_pong(False, 5.1)
    assert [pulse.verdict(5.1 + second) for second in range(5)] == [LivenessVerdict.FINE] * 5


def test_pulse_supervisor_stopped_blames_nobody() -> None:
    pulse = loaded()
    pulse.extend_limits(100.0)
    assert pulse.verdict(104.0) is LivenessVerdict.FINE


def test_pulse_pings_keep_interval() -> None:
    pulse = loaded()
    assert sum(pulse.ping_due(tenth / 10) for tenth in range(100)) == 5


@given(
    st.lists(
        st.tuples(st.sampled_from(["heard", "loading", "look", "extend_limits"]), st.floats(0.0, 8.0)), max_size=60
    )
)
def test_pulse_any_times_kill_only_after_wake(steps: list[tuple[str, float]]) -> None:
    pulse, now, woken_at, silent_since = loaded(), 0.0, None, 0.0
    for what, pause in steps:
        now += pause
        if what in ("heard", "loading"):
            pulse.on_pong(what == "loading", now)
            woken_at, silent_since = None, now
        elif what == "extend_limits":
            pulse.extend_limits(pause)
            woken_at = None if woken_at is None else woken_at + pause
            silent_since += pause
        verdict = pulse.verdict(now)
        if verdict is not LivenessVerdict.FINE:
            assert now - silent_since >= LIMITS.beat_s - 1e-6
        if verdict is LivenessVerdict.WAKE:
            woken_at = now
        elif verdict is LivenessVerdict.KILL:
            assert woken_at is not None
            assert now - woken_at >= LIMITS.beat_s - 1e-6
