"""Rows of a pod's waterfall from spans of many actors."""

import time
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from protocols.messages.trace import SEEN, WATCH, Span
from protocols.trace import trace_id, waterfall
from protocols.trace.waterfall import kind_of

POD = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e"


def made(actor: str, name: str, start: int, end: int, parent: int = 0) -> Span:
    """Return a span whose id is its start."""
    return Span(POD, name, start, end - start, {}, actor, start, parent)


LIFE = [
    made("devices", "Allocate", 210, 240, 208),
    made("apiserver-0", WATCH, 110, 110),
    made("apiserver-0", "create", 100, 130),
    made("apiserver-0", "store", 105, 125),
    made("podworker", "sync", 200, 900),
    made("devices", "allocate", 208, 245),
    made("podworker", "admit", 202, 255, 200),
    made("podworker", "patch status", 203, 250, 150),
    made("apiserver-0", "patch status", 204, 249),
    made("podworker", SEEN, 205, 206),
    made("scheduler", "bind", 140, 190),
    made("apiserver-1", "create binding", 150, 180),
    made("apiserver-1", WATCH, 170, 170),
]


def test_waterfall_nests_by_parent_and_by_call() -> None:
    rows = waterfall(LIFE, 1000)
    assert [(row.depth, row.actor, row.name) for row in rows] == [
        (0, "apiserver-0", "create"),
        (1, "apiserver-0", "store"),
        (0, "apiserver-0", "watch"),
        (0, "scheduler", "bind"),
        (1, "apiserver-1", "create binding"),
        (0, "apiserver-1", "watch"),
        (0, "podworker", "sync"),
        (1, "podworker", "admit"),
        (2, "devices", "allocate"),
        (3, "devices", "Allocate"),
        (0, "podworker", "patch status"),
        (1, "apiserver-0", "patch status"),
        (0, "podworker", "seen"),
    ]
    assert rows[0].start_ns == 0
    assert rows[0].time_ns == 1100


@given(
    st.lists(
        st.builds(
            Span,
            pod=st.just(POD),
            name=st.sampled_from(["admit", "allocate", "patch status", "store"]),
            start_ns=st.integers(0, 50),
            duration_ns=st.integers(0, 30),
            attributes=st.just({}),
            actor=st.sampled_from(["podworker", "devices", "apiserver-0", "health"]),
            id=st.integers(0, 50),
            parent=st.integers(0, 50),
        ),
        max_size=40,
    )
)
def test_waterfall_has_each_span_once_inside_its_parent(spans: list[Span]) -> None:
    rows = waterfall(spans)
    assert len(rows) == len(spans)
    path: list[tuple[int, int]] = []
    for row in rows:
        assert row.start_ns >= 0
        assert row.depth <= len(path)
        del path[row.depth :]
        if path:
            assert path[-1][0] <= row.start_ns
            assert row.start_ns + row.duration_ns <= path[-1][1]
        path.append((row.start_ns, row.start_ns + row.duration_ns))


def test_waterfall_of_many_overlapping_spans_is_quick() -> None:
    """A runtime whose stamps lie far back makes all its events overlap."""
    spans = [Span(POD, "runtime event", number, 10**9, {}, "cri", number + 1) for number in range(20_000)]
    began = time.process_time()
    assert len(waterfall(spans)) == 20_000
    assert time.process_time() - began < 2


def test_waterfall_of_nothing_is_empty() -> None:
    assert waterfall([]) == []


def test_kind_of_instances() -> None:
    assert [kind_of(name) for name in ("apiserver-12", "node-2/pleg", "devices")] == ["apiserver", "pleg", "devices"]


def test_trace_id_of_a_uuid_is_the_uuid() -> None:
    assert trace_id(POD) == UUID(POD).int
    assert 0 < trace_id("static-pod") < 2**128
    assert trace_id("static-pod") != trace_id("static-pod-2")
