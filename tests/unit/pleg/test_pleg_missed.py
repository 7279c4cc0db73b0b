"""Missed events, modes, health, and the pace of relists: pure, with a clock of the test's."""

import pytest
from prometheus_client import CollectorRegistry

from actors.pleg.shell.metrics import MetricsOptions, PlegMetrics
from actors.pleg.shell.mode_selector import ModeSelector, ModeSelectorOptions
from actors.pleg.shell.relister import RELIST_BURST, RELISTS_PER_S
from actors.pleg.state_machine.missed_events import GRACE_NS, QUEUE_DROP, RUNTIME, STREAM_DOWN, LostEvents, MissedEvents
from actors.pleg.state_machine.mode import (
    EVENTED_PERIOD_S,
    GENERIC_PERIOD_S,
    Mode,
    ModeInput,
    health_fault,
    next_health_check,
    plan,
)
from actors.pleg.state_machine.status_merger import StatusMerger
from protocols.messages.cri import RuntimeState
from protocols.process.rates import TokenBucket
from protocols.wire import cri_pb2 as cri

UP = 1_000 * 10**9
STREAMING = RuntimeState(connected=True, streaming=True)


def watched() -> MissedEvents:
    missed = MissedEvents()
    missed.stream_opened(UP)
    return missed


@pytest.mark.parametrize(
    ("old", "new", "transitions"),
    [
        ({}, {"c": "running"}, ["started"]),
        ({"c": "running"}, {"c": "exited"}, ["stopped"]),
        ({"c": "unknown"}, {"c": "exited"}, []),
        ({"c": "exited"}, {}, ["deleted"]),
        ({"c": "running"}, {}, ["deleted", "stopped"]),
        ({"c": "running"}, {"c": "running"}, []),
    ],
)
def test_missed_change_without_event_counts(old: dict[str, str], new: dict[str, str], transitions: list[str]) -> None:
    missed = watched()
    missed.inspected(old, new, UP + 1, UP + 2)
    assert missed.settle(UP + 2 + GRACE_NS - 1) == 0, "the event may still come"
    distrusted = len(transitions) - transitions.count("deleted")
    assert missed.settle(UP + 2 + GRACE_NS) == distrusted, "a removal changes nothing that runs"
    assert sorted(transition for cause, transition in missed.counts if cause == RUNTIME) == transitions


def test_missed_changes_count_after_the_clock_went_back() -> None:
    """The stream seemed to have opened later than all inspections, and candidates stayed such, for as long."""
    missed, back = watched(), UP - 600 * 10**9
    missed.inspected({"a": "running"}, {"a": "exited"}, UP + 1, UP + 2)
    assert missed.settle(back) == 1
    missed.inspected({}, {}, back, back + 1)
    missed.inspected({"b": "running"}, {"b": "exited"}, back + 2, back + 3)
    assert missed.settle(back + 3 + GRACE_NS) == 1
    assert dict(missed.counts) == {(RUNTIME, "stopped"): 2}


def test_missed_event_near_change_explains_it() -> None:
    missed = watched()
    missed.event("a", cri.CONTAINER_STOPPED_EVENT)
    missed.inspected({"a": "running", "b": "running"}, {"a": "exited", "b": "exited"}, UP + 1, UP + 2)
    missed.event("b", cri.CONTAINER_STOPPED_EVENT)
    assert missed.settle(UP + 10 * GRACE_NS) == 0
    assert not missed.counts


def test_missed_event_is_not_taken_by_a_scrape() -> None:
    missed, registry = watched(), CollectorRegistry()
    selector = ModeSelector(ModeSelectorOptions("auto", True, StatusMerger(), lambda state: None))
    PlegMetrics(MetricsOptions(registry, StatusMerger(), selector, missed, LostEvents(), True))
    missed.inspected({"a": "running"}, {"a": "exited"}, UP + 1, UP + 2)
    list(registry.collect())
    assert missed.settle(UP + 2 + GRACE_NS) == 1, "the mode is chosen by it"


def test_missed_while_stream_down_counts_apart() -> None:
    missed = watched()
    missed.stream_closed()
    missed.inspected({"a": "running"}, {"a": "exited"}, UP + 1, UP + 2)
    missed.stream_opened(UP + 10)
    missed.inspected({"b": "running"}, {"b": "exited"}, UP + 9, UP + 11)
    missed.stream_opened(UP + 20, QUEUE_DROP)
    missed.inspected({"c": "running"}, {"c": "exited"}, UP + 19, UP + 21)
    assert missed.settle(UP + 100 * GRACE_NS) == 0
    assert dict(missed.counts) == {(STREAM_DOWN, "stopped"): 2, (QUEUE_DROP, "stopped"): 1}


def test_missed_first_relist_counts_nothing() -> None:
    missed = watched()
    assert not missed.inspected({}, {"c": "running"}, 0, UP + 1)
    silent = MissedEvents()
    assert not silent.inspected({"c": "running"}, {"c": "exited"}, UP, UP + 1)
    assert not silent.counts


@pytest.mark.parametrize(
    ("state", "mode_input", "mode", "period"),
    [
        (STREAMING, ModeInput(stamps=True), Mode.EVENTED, EVENTED_PERIOD_S),
        (STREAMING, ModeInput(stamps=False), Mode.HINT, GENERIC_PERIOD_S),
        (STREAMING, ModeInput(mode="evented", stamps=False), Mode.EVENTED, EVENTED_PERIOD_S),
        (STREAMING, ModeInput(mode="hint", stamps=True), Mode.HINT, GENERIC_PERIOD_S),
        (STREAMING, ModeInput(mode="generic", stamps=True), Mode.GENERIC, GENERIC_PERIOD_S),
        (STREAMING, ModeInput(gate=False), Mode.GENERIC, GENERIC_PERIOD_S),
        (STREAMING, ModeInput(stamps=True, events_missed=True), Mode.HINT, GENERIC_PERIOD_S),
        (RuntimeState(connected=True, events_supported=False), ModeInput(), Mode.GENERIC, GENERIC_PERIOD_S),
        (RuntimeState(connected=True, message="EOF"), ModeInput(mode="evented"), Mode.GENERIC, GENERIC_PERIOD_S),
        (RuntimeState(streaming=True), ModeInput(stamps=True), Mode.GENERIC, GENERIC_PERIOD_S),
    ],
)
def test_plan_any_state_gives_mode(state: RuntimeState, mode_input: ModeInput, mode: Mode, period: float) -> None:
    chosen = plan(state, mode_input)
    assert (chosen.mode, chosen.period_s) == (mode, period)
    assert chosen.why


def test_plan_reason_that_does_not_pass_is_named_before_missed_events() -> None:
    missed = ModeInput(stamps=False, events_missed=True)
    assert plan(STREAMING, missed) == plan(STREAMING, ModeInput(stamps=False))
    assert plan(STREAMING, ModeInput(mode="evented", events_missed=True)).mode is Mode.HINT


def test_health_stale_relist_has_upstreams_text() -> None:
    assert health_fault(0.0, 5.0, 180.0) == "pleg has yet to be successful"
    assert health_fault(10.0, 190.0, 180.0) == ""
    assert health_fault(10.0, 191.2, 180.0) == "pleg was last seen active 3m1.2s ago; threshold is 3m0s"
    assert next_health_check(10.0, 100.0, 180.0) == 90.0
    assert next_health_check(10.0, 500.0, 180.0) == 1.0


def test_relist_requested_often_is_once_a_second() -> None:
    limiter, now, begun = TokenBucket(RELISTS_PER_S, RELIST_BURST, RELIST_BURST, 0.0), 100.0, 0
    while now < 160.0:
        now += limiter.wait(now) + 0.001
        begun += 1
    assert begun <= 60 + RELIST_BURST + 1
