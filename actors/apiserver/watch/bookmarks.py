"""Bookmarks under load: when they are due, and how they reach all watches.

An idle watch gets a bookmark each minute. A restarted watch cache, however, reads back a bounded history: a number of
revisions and of bytes. A client with an older bookmark could not resume after the watch cache and the API servers died
together. Bookmarks are therefore also due whenever a quarter of any bound has passed. At any rate of writes the
history covers four such intervals: one for the bookmark and three for the time that all were down.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from actors.apiserver.watch.timers import Flusher
from actors.apiserver.watch.watcher import Watcher
from protocols.messages.objects import HISTORY_BYTES, HISTORY_REVISIONS, WINDOW_BYTES

SHARE = 4
"""Bookmark intervals in a retained history."""


class ChangeVolume:
    """Bytes of all changes of one store, shared by the pacers of its resources."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class BookmarkPacer:
    """Decide when all watches of one resource get a bookmark. Pure, and cheap: asked at each new mark."""

    __slots__ = ("_before", "_bytes", "_revision", "_volume")

    def __init__(self, volume: ChangeVolume | None = None) -> None:
        self._volume = volume or ChangeVolume()
        self._before = 0
        """Value of the volume at the last bookmarks."""
        self._bytes = 0
        self._revision = 0

    def changed(self, size: int) -> None:
        """Count a change of this resource: the bytes of the object before and after."""
        self._bytes += size
        self._volume.bytes += size

    def due(self, mark: int) -> bool:
        """Return True if a bookmark is due. The mark may go back: a store may be restored from a backup."""
        return (
            abs(mark - self._revision) >= HISTORY_REVISIONS // SHARE
            or self._bytes >= WINDOW_BYTES // SHARE
            or self._volume.bytes - self._before >= HISTORY_BYTES // SHARE
        )

    def sent(self, mark: int) -> None:
        """Start the next interval: all watches get a bookmark at `mark`."""
        self._revision, self._bytes, self._before = mark, 0, self._volume.bytes


TURN = 250
"""Watches that get their bookmark in one turn of the event loop, which takes a few milliseconds."""


class _Marker(Protocol):
    def bookmark(self, watcher: Watcher) -> bool:
        """Send the newest bookmark to a watch that requests bookmarks and has not got it."""


class BookmarkSweep:
    """Send bookmarks to all watches of a resource, TURN of them in each turn of the event loop.

    A sweep that begins during another replaces it, so memory is bounded by the number of open watches.
    """

    def __init__(self, marker: _Marker, flusher: Flusher) -> None:
        self._marker, self._flusher = marker, flusher
        self._left: deque[Watcher] = deque()

    def begin(self, watchers: Iterable[Watcher]) -> None:
        """Start a sweep. Watches left from the sweep before come first."""
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
