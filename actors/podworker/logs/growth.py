"""Which logs are looked at: one that grows each time, a silent one seldom. Most containers say little."""

from collections.abc import Mapping

SELDOM = 6
"""A silent log is looked at each sixth time: one that bursts out is found a minute later at most."""


class Growth:
    def __init__(self) -> None:
        self._looks = 0
        self._known: dict[str, tuple[int, int, int]] = {}
        """Id: size when looked at, looks in a row that found it so, number of the next look."""
        self._next = 0
        """No log is due before this look, unless it is new."""

    def pass_over(self) -> bool:
        """Begin a look at the same containers as the last time, if it is one at which no log is due."""
        if self._looks + 1 >= self._next:
            return False
        self._looks += 1
        return True

    def due(self, logs: Mapping[str, object]) -> list[str]:
        """Begin a look; ids not among these are forgotten."""
        self._looks += 1
        if self._known.keys() != logs.keys():
            self._known = {id: self._known.get(id, (-1, 0, 0)) for id in logs}
        elif self._looks < self._next:
            return []
        found = [id for id, (_, _, at) in self._known.items() if at <= self._looks]
        self._next = min((at for _, _, at in self._known.values() if at > self._looks), default=self._looks + SELDOM)
        return found

    def found(self, id: str, size: int) -> None:
        before, quiet, _ = self._known[id]
        quiet = quiet + 1 if size == before else 0
        self._at(id, size, quiet, self._looks + (SELDOM if quiet else 1))

    def again(self, id: str) -> None:
        """Something is to be done with it: the next look sees it, too."""
        self._at(id, self._known[id][0], 0, self._looks + 1)

    def _at(self, id: str, size: int, quiet: int, look: int) -> None:
        self._known[id] = (size, quiet, look)
        self._next = min(self._next, look)
