"""A histogram of weighted observations says what one of single observations says."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from actors.apiserver.api.counters import WeightedHistogram

BUCKETS = (1.0, 2.5, 1000.0)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.0, 5000.0]), st.integers(1, 5)), min_size=1, max_size=20)
)
def test_as_the_library_s_own(observed: list[tuple[float, int]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    weighted = WeightedHistogram("sizes", "Sizes.", ("a",), BUCKETS, ours).labels("x")
    single = Histogram("sizes", "Sizes.", ("a",), buckets=BUCKETS, registry=theirs).labels("x")
    for value, times in observed:
        weighted.observe(value, times)
        for _ in range(times):
            single.observe(value)
    lines = {line for line in generate_latest(theirs).decode().splitlines() if "_created" not in line}
    assert {line for line in generate_latest(ours).decode().splitlines() if "_created" not in line} == lines
