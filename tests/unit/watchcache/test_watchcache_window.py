"""The window: never a gap above its floor, sizes within bounds, progress without effect on history."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.watchcache.cache.window import Window, WindowEntry, WindowOptions
from protocols.messages.objects import ObjectEvent

SMALL = WindowOptions(min_capacity=4, max_capacity=16, target_age=10.0, max_bytes=400)
# (revisions to the next change, seconds to it, bytes of its object)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 8), st.integers(0, 60)), max_size=80)


def entry(rv: int, at: float, size: int = 2) -> WindowEntry:
    return WindowEntry("k", ObjectEvent("ADDED", rv, b"x" * size), at)


@settings(deadline=None)
@given(STEPS, st.integers(0, 50))
def test_window_oldest_version_replays_all(steps: list[tuple[int, float, int]], start: int) -> None:
    window, rv, now, published = Window(SMALL, start), start + 1, 0.0, []
    for ahead, later, size in steps:
        rv, now = rv + ahead, now + later
        floor = window.floor
        window.append(entry(rv, now, size))
        published.append(rv)
        assert window.floor >= floor
        assert len(window) <= window.capacity <= SMALL.max_capacity
        assert window.capacity >= SMALL.min_capacity
    for revision in range(max(start - 2, 0), rv + 2):
        found = window.since(revision)
        if revision < window.floor:
            assert found is None
        else:
            assert found is not None
            assert [each.event.rv for each in found] == [each for each in published if each > revision]


@settings(deadline=None)
@given(STEPS, st.integers(0, 300))
def test_window_raised_floor_shortens(steps: list[tuple[int, float, int]], to: int) -> None:
    window, rv = Window(SMALL, 0), 1
    for ahead, later, size in steps:
        rv += ahead
        window.append(entry(rv, later, size))
    floor = window.floor
    window.raise_floor(to)
    assert window.floor == max(floor, to)
    assert all(each.event.rv > to for each in window.since(window.floor) or [])


def test_window_fresh_changes_grow_and_old_shrink() -> None:
    window = Window(SMALL, 0)
    for rv in range(1, 21):
        window.append(entry(rv, 1.0))
    assert (window.capacity, window.increases, len(window), window.floor) == (16, 2, 16, 4)
    for rv in range(21, 40):
        window.append(entry(rv, 100.0 * rv))
    assert window.capacity == SMALL.min_capacity
    assert window.decreases == 2


def test_window_idle_keeps_events() -> None:
    window = Window(SMALL, 7)
    assert window.since(7) == []
    assert window.since(6) is None
    window.append(entry(9, 1.0))
    assert window.since(7) == window.since(8)
    assert window.since(1_000_000) == []


def test_window_defaults_are_upstreams() -> None:
    options = WindowOptions()
    assert (options.min_capacity, options.max_capacity) == (100, 102_400)
    assert options.target_age == pytest.approx(75.0)
