"""How the CPU time of pure functions grows with what they are given."""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator

FACTOR = 4
MOST = 10.0
"""Linear work grows by FACTOR, quadratic work by its square; between the two is room for a busy machine."""
ROUNDS = 4
MOST_ROUNDS = 40
"""Rounds before work counts as more than linear. The machine's other work only adds: the least of each counts."""


def growth(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many times the work of `FACTOR * size` costs more than that of `size`; preparing is not counted."""
    small, large = prepare(size), prepare(FACTOR * size)
    small_s = large_s = found = float("inf")
    with _no_collection():
        for number in range(1, MOST_ROUNDS + 1):
            small_s, large_s = min(small_s, _seconds(small)), min(large_s, _seconds(large))
            found = large_s / max(small_s, 1e-6)
            if number >= ROUNDS and found < MOST:
                break
    return found


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector out: it walks the objects of every test before, and large work brings it on more often."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
