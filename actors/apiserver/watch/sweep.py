"""Bookmarks to all watches of a resource, some a turn of the loop."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from actors.apiserver.watch.flusher import Flusher
from actors.apiserver.watch.watcher import Watcher

TURN = 250
"""Watches that get their bookmark in one turn, which takes a few milliseconds."""


class Marker(Protocol):
    def bookmark(self, watcher: Watcher) -> bool:
        """Send the newest bookmark to a watch that wants them and has not got it."""


class Sweep:
    """Memory is bounded by the number of open watches: one that begins while another goes on replaces it."""

    def __init__(self, marker: Marker, flusher: Flusher) -> None:
        self._marker, self._flusher = marker, flusher
        self._left: deque[Watcher] = deque()

    def begin(self, watchers: Iterable[Watcher]) -> None:
        """Those that were left from the sweep before come first."""
        under_way = bool(self._left)
        left = dict.fromkeys(self._left)
        self._left = deque(dict.fromkeys([*left, *watchers]))
        if not under_way:
            self._flusher.want(self)

    def flush(self) -> None:
        for _ in range(min(TURN, len(self._left))):
            self._marker.bookmark(self._left.popleft())
        if self._left:
            self._flusher.want(self)
