"""Whether a resync may be left out: what a pod's look depends on is as it was when the last one found nothing to do.

What a look does follows from these things and from the time; what waits for a time says so and is not calm. The resync
is there for what should not happen (a wake-up lost, a fault of ours): each one compares, and now and then one looks all
the same, which costs a hundred times as much.
"""

import random
from typing import Any

LEFT_OUT = 40
"""Resyncs in a row that may be left out at most: with one a minute a look each half hour or so. Not the same number for
all, so that pods that were made at once are not looked at at once for ever."""


class Calm:
    def __init__(self) -> None:
        self._seen: tuple[Any, ...] = ()
        self._looking: tuple[Any, ...] = ()
        self._left = 0

    @property
    def quiet(self) -> bool:
        """The last look found nothing to do, nor anything to wait for."""
        return bool(self._seen)

    def looks(self, depends_on: tuple[Any, ...]) -> None:
        """A look begins: what it depends on as it is now, for what changes during the look is looked at again."""
        self._looking = depends_on

    def looked(self, calm: bool) -> None:
        """The look is over. Not calm: there is more to do, or to wait for."""
        self._seen = self._looking if calm else ()
        self._left = random.randint(LEFT_OUT // 2, LEFT_OUT)

    def replaced(self, old: object, new: object) -> None:
        """Another object that makes no difference to a look."""
        self._seen = tuple(new if each is old else each for each in self._seen)
        self._looking = tuple(new if each is old else each for each in self._looking)

    def holds(self, depends_on: tuple[Any, ...]) -> bool:
        """The very same things, not equal ones: each is replaced when it changes. Counts as left out if so."""
        same = bool(self._seen) and all(a is b for a, b in zip(self._seen, depends_on, strict=True))
        if not same or not self._left:
            return False
        self._left -= 1
        return True
