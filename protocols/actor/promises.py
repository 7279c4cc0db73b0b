"""Promises of progress: a live event loop with a stuck reconciler is still a failure. Pure."""

from collections.abc import Callable

import msgspec


class _Promise(msgspec.Struct):
    within: float
    kept: float


class Promises:
    """`now` is the clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._promises: dict[str, _Promise] = {}

    def make(self, name: str, within: float) -> Callable[[], None]:
        """A promise that the returned function is called at least every `within` seconds from now on."""
        promise = self._promises[name] = _Promise(within, self._now())

        def kept() -> None:
            promise.kept = self._now()

        return kept

    def broken(self) -> str:
        """The name longest overdue; empty when all are kept."""
        now = self._now()
        overdue = {name: now - p.kept - p.within for name, p in self._promises.items()}
        worst = max(overdue, key=overdue.__getitem__, default="")
        return worst if worst and overdue[worst] > 0 else ""
