"""How the CPU time of pure functions grows with what they are given."""

import time
from collections.abc import Callable

FACTOR = 4
MOST = 10.0
"""Linear work grows by FACTOR, quadratic work by its square; between the two is room for a busy machine."""


def growth(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many times the work of `FACTOR * size` costs more than that of `size`; preparing is not counted."""
    small, large = prepare(size), prepare(FACTOR * size)
    return _seconds(large) / max(_seconds(small), 1e-6)


def _seconds(work: Callable[[], object]) -> float:
    """Return the least of a few runs: others' work on the machine only adds to it."""
    found = []
    for _ in range(4):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return min(found)
