"""Liveness deadlines and plain counters."""

import pytest
from prometheus_client import CollectorRegistry

from protocols.actor.heartbeats import LivenessDeadlines
from protocols.actor.metrics import PlainCounter
from protocols.actor.metrics_text import page


def test_the_longest_overdue_promise_is_named() -> None:
    now = 0.0
    deadlines = LivenessDeadlines(lambda: now)
    quick, _ = deadlines.add("quick", 1.0), deadlines.add("slow", 5.0)
    assert deadlines.overdue() == ""
    now = 1.5
    assert deadlines.overdue() == "quick"
    quick()
    assert deadlines.overdue() == ""
    now = 7.0
    assert deadlines.overdue() == "quick"
    quick()
    assert deadlines.overdue() == "slow"


async def test_a_plain_counter_keeps_its_name() -> None:
    registry = CollectorRegistry()
    plain = PlainCounter("evictions_number", "Evictions.", registry=registry)
    plain.inc()
    plain.inc(2)
    PlainCounter("by_kind", "Kinds.", ["kind"], registry=registry).labels(kind="a").inc()
    text = await page(registry)
    assert "# TYPE evictions_number counter\nevictions_number 3.0\n" in text
    assert '# TYPE by_kind counter\nby_kind{kind="a"} 1.0\n' in text
    assert "_total" not in text


def test_a_plain_counter_refuses_what_is_no_count() -> None:
    plain = PlainCounter("c", "C.", ["kind"])
    with pytest.raises(ValueError, match="only goes up"):
        plain.labels("a").inc(-1)
    with pytest.raises(ValueError, match="has labels"):
        plain.labels("a", "b")
