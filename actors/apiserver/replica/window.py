"""Recent changes, from which a watch resumes: grows while busy, shrinks when calm, forgets the oldest first."""

from bisect import bisect_right

from actors.apiserver.replica.change import Change

LOWEST, HIGHEST = 100, 102_400
FRESH_SECONDS = 75.0
ENCODED = 256
"""Changes that keep their encoded forms; those of older ones are made again if a watch resumes that far back."""


class Window:
    """Pure. A watch from revision N can be served iff N >= floor."""

    def __init__(self, floor: int = 0, lowest: int = LOWEST, highest: int = HIGHEST) -> None:
        self.floor = floor
        self.capacity = lowest
        self._lowest, self._highest = lowest, highest
        self._changes: list[Change] = []
        self._first = 0
        """Index of the oldest change kept: the ones before it are evicted, their memory freed in batches."""

    def __len__(self) -> int:
        return len(self._changes) - self._first

    def append(self, change: Change) -> None:
        """`change.at` never decreases, nor does `change.rv`."""
        if len(self) >= self.capacity:
            self._resize(change.at)
        while len(self) >= self.capacity:
            self._evict()
        if len(self) >= ENCODED:
            self._changes[-ENCODED].encoded.clear()
        self._changes.append(change)

    def since(self, rv: int) -> list[Change]:
        """Changes with a revision above `rv`, oldest first."""
        first = bisect_right(self._changes, rv, lo=self._first, key=lambda change: change.rv)
        return self._changes[first:]

    def _resize(self, now: float) -> None:
        oldest, quarter = self._changes[self._first], self._changes[-max(1, self.capacity // 4)]
        if now - oldest.at < FRESH_SECONDS:
            self.capacity = min(self._highest, self.capacity * 2)
        elif now - quarter.at > FRESH_SECONDS:
            self.capacity = max(self._lowest, self.capacity // 2)

    def _evict(self) -> None:
        evicted = self._changes[self._first]
        self._first += 1
        rest = self._changes[self._first].rv - 1 if len(self) else evicted.rv
        self.floor = max(self.floor, evicted.rv, rest)
        if self._first > max(self._lowest, self.capacity // 4):
            del self._changes[: self._first]
            self._first = 0
