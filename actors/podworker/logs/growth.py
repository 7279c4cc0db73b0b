"""Which logs are looked at: one that grows each time, a silent one ever more seldom. Most containers say little."""

from collections.abc import Iterable

SELDOM = 6
"""A silent log is looked at each sixth time: one that bursts out is found a minute later at most."""


class Growth:
    def __init__(self) -> None:
        self._looks = 0
        self._known: dict[str, tuple[int, int, int]] = {}
        """Id: size when looked at, looks in a row that found it so, number of the next look."""

    def due(self, ids: Iterable[str]) -> list[str]:
        """Begin a look; ids not among these are forgotten."""
        self._looks += 1
        self._known = {id: self._known.get(id, (-1, 0, 0)) for id in ids}
        return [id for id, (_, _, at) in self._known.items() if at <= self._looks]

    def found(self, id: str, size: int) -> None:
        before, quiet, _ = self._known[id]
        quiet = quiet + 1 if size == before else 0
        self._known[id] = (size, quiet, self._looks + min(quiet + 1, SELDOM))

    def again(self, id: str) -> None:
        """Something is to be done with it: the next look sees it, too."""
        size, _, _ = self._known[id]
        self._known[id] = (size, 0, 0)
