"""Attempts of probes that nobody watched are counted as if each had been made."""

import random
from unittest.mock import Mock

import pytest

from actors.fleet.simulated.probes import Attempts, Outcomes
from protocols.lifecycle.pods.probes import LIVENESS, READINESS, STARTUP, Probe, initial_state, is_decided, observe
from protocols.lifecycle.pods.types import SECOND

MONTH_S = 30 * 86_400


def attempts(kind: str, outcomes: Outcomes, **thresholds: int) -> Attempts:
    return Attempts(Probe(kind, {}, period=1, **thresholds), outcomes, initial_state(kind), 0)


@pytest.mark.parametrize("kind", [READINESS, LIVENESS, STARTUP])
def test_attempts_passed_at_once_end_as_those_made_in_turn(kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(200):
        times = sorted(draw.randrange(40) * SECOND // 2 for _ in range(2))
        thresholds = {"success": draw.randrange(1, 4), "failure": draw.randrange(1, 9)}
        slept, awake = (attempts(kind, Outcomes(*times), **thresholds) for _ in range(2))
        until = draw.randrange(30)
        for second in range(until + 1):
            if not is_decided(awake.probe, awake.state):
                awake.state = observe(awake.probe, awake.state, awake.outcomes.at(second * SECOND))
                awake.next_ns = (second + 1) * SECOND
        slept.pass_time(0, until * SECOND)
        assert (slept.state.good, slept.next_ns) == (awake.state.good, awake.next_ns), (times, thresholds, until)


def test_month_of_attempts_is_counted_by_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = attempts(READINESS, Outcomes(from_ns=MONTH_S // 2 * SECOND), success=3)
    counted = Mock(wraps=observe)
    monkeypatch.setattr("actors.fleet.simulated.probes.observe", counted)
    slept.pass_time(0, MONTH_S * SECOND)
    assert (slept.state.good, slept.next_ns) == (True, (MONTH_S + 1) * SECOND)
    assert counted.call_count < 10
