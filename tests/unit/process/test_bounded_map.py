"""The bounded map against a plain list of keys, the oldest first."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.bounded import BoundedMap

MOST = 4
KEYS = st.integers(0, 8)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "default", "use", "pop"]), KEYS, st.integers()))


@given(STEPS)
def test_bounded_map_after_any_steps_holds_the_newest(steps: list[tuple[str, int, int]]) -> None:
    entries = BoundedMap[int, int](MOST)
    expected: list[tuple[int, int]] = []
    for step, key, value in steps:
        held = dict(expected)
        if step == "default":
            assert entries.setdefault(key, value) == held.get(key, value)
            if key in held:
                continue
        elif step == "use":
            assert entries.get_or_make(key, lambda value=value: value) == held.get(key, value)  # type: ignore[misc]
            value = held.get(key, value)
        elif step == "pop":
            assert entries.pop(key, None) == held.get(key)
        else:
            entries[key] = value
        expected = [entry for entry in expected if entry[0] != key] + ([(key, value)] if step != "pop" else [])
        expected = expected[-MOST:]
        assert list(entries.items()) == expected


def test_bounded_map_failed_make_leaves_no_entry() -> None:
    entries = BoundedMap[str, int](MOST)
    try:
        entries.get_or_make("a", lambda: int("a"))
    except ValueError:
        assert not entries
