"""When bookmarks are due under load. Pure.

An idle watch is sent a bookmark each minute, but a restarted watch cache reads back a bounded history: so many
revisions, so many bytes. A client whose last bookmark is older could not resume after watch cache and API servers died
together. So bookmarks are due, too, whenever a quarter of any bound has passed: what is read back covers four such
intervals at any rate of writes, one for the bookmark and three for the time that all are away.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from actors.apiserver.watch.timers import Flusher
from actors.apiserver.watch.watcher import Watcher
from protocols.messages.objects import HISTORY_BYTES, HISTORY_REVISIONS, WINDOW_BYTES

SHARE = 4
"""Bookmark intervals in what is kept."""


class ChangeVolume:
    """Bytes of all changes of one store."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class BookmarkPacer:
    """For the watches of one resource. `due` is cheap: it is asked with each movement of the mark."""

    __slots__ = ("_before", "_bytes", "_revision", "_volume")

    def __init__(self, volume: ChangeVolume | None = None) -> None:
        self._volume = volume or ChangeVolume()
        self._before = 0
        """Bytes of the store at the last bookmarks."""
        self._bytes = 0
        self._revision = 0

    def changed(self, size: int) -> None:
        """A change of this resource; `size`: bytes of the object before and after."""
        self._bytes += size
        self._volume.bytes += size

    def due(self, mark: int) -> bool:
        """The mark goes back when a store is restored from a backup."""
        return (
            abs(mark - self._revision) >= HISTORY_REVISIONS // SHARE
            or self._bytes >= WINDOW_BYTES // SHARE
            or self._volume.bytes - self._before >= HISTORY_BYTES // SHARE
        )

    def sent(self, mark: int) -> None:
        """All watches get a bookmark at `mark`."""
        self._revision, self._bytes, self._before = mark, 0, self._volume.bytes


TURN = 250
"""Watches that get their bookmark in one turn, which takes a few milliseconds."""


class Marker(Protocol):
    def bookmark(self, watcher: Watcher) -> bool:
        """Send the newest bookmark to a watch that wants them and has not got it."""


class BookmarkSweep:
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
            self._flusher.schedule(self)

    def flush(self) -> None:
        for _ in range(min(TURN, len(self._left))):
            self._marker.bookmark(self._left.popleft())
        if self._left:
            self._flusher.schedule(self)
