"""Bound of the streams that clients hold open."""

from collections import Counter

from actors.frontdoor.serving.errors import TooManyWatchers


class WatchQuota:
    """Limit of open watches, in total and per client, shared by all streams."""

    def __init__(self, total: int, per_client: int = 0) -> None:
        self._total = total
        self._per_client = per_client or total
        self._open: Counter[str] = Counter()

    def acquire(self, client: str) -> None:
        """Raises TooManyWatchers."""
        if self._open.total() >= self._total:
            raise TooManyWatchers(f"{self._total} watches are open already; close one")
        if self._open[client] >= self._per_client:
            raise TooManyWatchers(f"{self._per_client} watches are open already in this process; close one")
        self._open[client] += 1

    def release(self, client: str) -> None:
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]
