"""The cache bounded in bytes, against a plain list of what was used last."""

from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.custom.schema.pattern import ENTRY_BYTES, Lru

MOST = 4_000
KEYS = st.integers(0, 12)


def _size(key: int, value: int) -> int:
    return value


@given(st.lists(st.tuples(KEYS, st.integers(0, 1_500))))
def test_lru_after_any_puts_holds_the_newest_that_fit(puts: list[tuple[int, int]]) -> None:
    cache = Lru[int, int](MOST, _size)
    recent: list[tuple[int, int]] = []
    for key, value in puts:
        cache.put(key, value)
        recent = [entry for entry in recent if entry[0] != key]
        if value + ENTRY_BYTES <= MOST // 4:
            recent.append((key, value))
        while sum(size + ENTRY_BYTES for _, size in recent) > MOST:
            recent.pop(0)
    assert len(cache) == len(recent)
    assert all(cache.get(key) == value for key, value in recent)
    assert cache.bytes == sum(size + ENTRY_BYTES for _, size in recent) <= MOST


def test_lru_entry_that_is_read_outlives_older_ones() -> None:
    cache = Lru[int, int](4 * ENTRY_BYTES, lambda key, value: 0)
    for key in range(4):
        cache.put(key, key)
    assert cache.get(0) == 0
    cache.put(4, 4)
    assert (cache.get(0), cache.get(1)) == (0, None)


def test_lru_value_too_large_is_made_and_not_retained() -> None:
    cache = Lru[str, bytes](MOST, lambda key, value: len(key) + len(value))
    assert cache.get_or_make("a", lambda: b"x" * MOST) == b"x" * MOST
    assert len(cache) == cache.bytes == 0
