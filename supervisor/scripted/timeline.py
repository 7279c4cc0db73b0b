"""Which steps are due when. Pure: the caller has the clock."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from supervisor.scripted.types import Step

S = TypeVar("S", bound=Step)


class Timeline(Generic[S]):
    """Steps by time, those of one time in the order of the script; `repeat` > 0: it all begins anew that often."""

    def __init__(self, steps: Iterable[S], repeat: float = 0.0) -> None:
        self._steps = sorted(steps, key=lambda step: step.at)
        self._repeat = repeat
        self._begun = 0.0
        self._next = 0

    def due(self, elapsed: float) -> list[S]:
        """Steps not given before whose time has come, at most one round of the script."""
        found = []
        while self._next < len(self._steps) and self._begun + self._steps[self._next].at <= elapsed:
            found.append(self._steps[self._next])
            self._next += 1
        if self._over(elapsed):
            self._begun, self._next = self._begun + self._repeat, 0
        return found

    def wait(self, elapsed: float) -> float | None:
        """Seconds until `due` has something to say again; None = never."""
        if self._next < len(self._steps):
            return max(0.0, self._begun + self._steps[self._next].at - elapsed)
        return max(0.0, self._begun + self._repeat - elapsed) if self._repeat and self._steps else None

    def _over(self, elapsed: float) -> bool:
        done = self._next == len(self._steps)
        return bool(self._repeat and self._steps and done and self._begun + self._repeat <= elapsed)
