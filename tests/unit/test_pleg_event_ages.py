"""Ages of events: the same histogram as prometheus_client's own."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from actors.pleg.service.metrics import OURS, UPSTREAM, EventAges
from protocols.actor.metrics import DEFAULT_BUCKETS

AGES = st.lists(st.one_of(st.floats(0, 20), st.sampled_from(DEFAULT_BUCKETS)), max_size=30)


def lines(registry: CollectorRegistry, name: str) -> list[str]:
    text = generate_latest(registry).decode().splitlines()
    return [line for line in text if line.startswith((f"{name}_bucket", f"{name}_count"))]


@given(AGES)
def test_event_ages_any_values_match_prometheus_histogram(seconds: list[float]) -> None:
    ours, theirs, ages = CollectorRegistry(), CollectorRegistry(), EventAges()
    ours.register(ages)
    library = Histogram(UPSTREAM, "x", buckets=DEFAULT_BUCKETS, registry=theirs)
    for age in seconds:
        ages.observe(age)
        library.observe(age)
    assert lines(ours, UPSTREAM) == lines(theirs, UPSTREAM)
    assert f"{OURS}_count {float(len(seconds))}" in lines(ours, OURS)
