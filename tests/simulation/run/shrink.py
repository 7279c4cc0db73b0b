"""Find a short list of faults that still breaks a promise, by leaving faults out (delta debugging).

Pure: the caller runs the seed with the faults that it is asked about, and may end the search at any time.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def shrunk(items: Sequence[T], breaks: Callable[[Sequence[T]], bool], more: Callable[[], bool]) -> list[T]:
    """Return items, in their order, that still break.

    Where `more` never ends the search, leaving out any one of the result does not break. `items` must break;
    `breaks` is asked at most once about each list, and only while `more()` is true.
    """
    asked: dict[tuple[int, ...], bool] = {}

    def still(places: Sequence[int]) -> bool:
        key = tuple(places)
        if key not in asked:
            if not more():
                return False
            asked[key] = breaks([items[place] for place in key])
        return asked[key]

    places = list(range(len(items)))
    if still([]):
        return []
    parts = 2
    while len(places) > 1 and more():
        parts = min(parts, len(places))
        smaller = _smaller(_split(places, parts), still)
        if smaller is not None:
            places, was_one = smaller
            parts = 2 if was_one else max(parts - 1, 2)
        elif parts == len(places):
            break
        else:
            parts *= 2
    return [items[place] for place in places]


def _split(places: list[int], parts: int) -> list[list[int]]:
    size, over = divmod(len(places), parts)
    ends = [number * size + min(number, over) for number in range(parts + 1)]
    return [places[begin:end] for begin, end in pairwise(ends)]


def _smaller(chunks: list[list[int]], still: Callable[[Sequence[int]], bool]) -> tuple[list[int], bool] | None:
    """Return one chunk that breaks (and True), or all but one (and False)."""
    for chunk in chunks:
        if still(chunk):
            return chunk, True
    if len(chunks) > 2:
        for left_out in chunks:
            rest = [place for chunk in chunks if chunk is not left_out for place in chunk]
            if still(rest):
                return rest, False
    return None
