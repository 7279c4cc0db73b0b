"""Measurements of the last 15 minutes in rings of fixed size, and their plots in text."""

import math
from collections import deque
from collections.abc import Iterable, Sequence

KEPT_S = 900
"""Fifteen minutes."""
STEP_S = 5
"""Seconds of one point of a series."""
POINTS = KEPT_S // STEP_S
SAMPLES = 200
"""Latencies of one point; beyond it the oldest make room."""
BARS = " ▁▂▃▄▅▆▇█"


class Series:
    """The newest value of each step; a step without one is a gap."""

    def __init__(self) -> None:
        self._points: deque[tuple[int, float]] = deque(maxlen=POINTS)

    def add(self, now: float, value: float) -> None:
        step = int(now // STEP_S)
        if self._points and self._points[-1][0] >= step:
            self._points[-1] = (self._points[-1][0], value)
        else:
            self._points.append((step, value))

    def last(self) -> float | None:
        return self._points[-1][1] if self._points else None

    def values(self, now: float) -> list[float | None]:
        """Return one value per step, the oldest first; None where nothing was measured."""
        known = dict(self._points)
        newest = int(now // STEP_S)
        return [known.get(step) for step in range(newest - POINTS + 1, newest + 1)]


class Latencies:
    """Latencies by step, with a bounded number of samples each."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, deque[float]]] = deque(maxlen=POINTS)

    def add(self, now: float, seconds: float) -> None:
        step = int(now // STEP_S)
        if not self._steps or self._steps[-1][0] < step:
            self._steps.append((step, deque(maxlen=SAMPLES)))
        self._steps[-1][1].append(seconds)

    def quantile(self, share: float, now: float) -> float | None:
        """Return a quantile of all samples that are not older than 15 minutes."""
        oldest = int(now // STEP_S) - POINTS
        return _quantile([sample for step, samples in self._steps if step > oldest for sample in samples], share)

    def values(self, share: float, now: float) -> list[float | None]:
        known = {step: _quantile(samples, share) for step, samples in self._steps}
        newest = int(now // STEP_S)
        return [known.get(step) for step in range(newest - POINTS + 1, newest + 1)]


class Rate:
    """The growth per second of a counter, which starts anew with its process."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def of(self, now: float, count: float) -> float | None:
        """Return the rate since the last call; None for the first one and after a restart of the counter."""
        last, self._last = self._last, (now, count)
        if last is None or count < last[1] or now <= last[0]:
            return None
        return (count - last[1]) / (now - last[0])


def _quantile(samples: Iterable[float], share: float) -> float | None:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def plot(values: Sequence[float | None], width: int, height: int, top: float | None = None) -> list[str]:
    """Return lines of bars; each column is the largest value of its steps, a gap is blank."""
    columns = _columns(values, width)
    scale = top or max((value for value in columns if value is not None), default=0.0)
    return ["".join(_cell(value, scale, height, row) for value in columns) for row in range(height - 1, -1, -1)]


def _columns(values: Sequence[float | None], width: int) -> list[float | None]:
    if width < 1 or not values:
        return []
    share = len(values) / width
    columns = []
    for column in range(width):
        first = int(column * share)
        part = [value for value in values[first : max(first + 1, int((column + 1) * share))] if value is not None]
        columns.append(max(part) if part else None)
    return columns


def _cell(value: float | None, scale: float, height: int, row: int) -> str:
    if value is None:
        return " "
    eighths = math.ceil(value / scale * height * 8) if scale > 0 else 0
    if row == 0:
        eighths = max(1, eighths)  # a measured zero differs from a gap
    return BARS[min(8, max(0, eighths - row * 8))]
