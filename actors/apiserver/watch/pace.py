"""When bookmarks are due under load. Pure.

An idle watch is sent a bookmark each minute, but a restarted watch cache reads back a bounded history: so many
revisions, so many bytes. A client whose last bookmark is older could not resume after watch cache and API servers died
together. So bookmarks are due, too, whenever a quarter of any bound has passed: what is read back covers four such
intervals at any rate of writes, one for the bookmark and three for the time that all are away.
"""

from protocols.messages.objects import HISTORY_BYTES, HISTORY_REVISIONS, WINDOW_BYTES

SHARE = 4
"""Bookmark intervals in what is kept."""


class Volume:
    """Bytes of all changes of one store."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Pace:
    """For the watches of one resource. `due` is cheap: it is asked with each movement of the mark."""

    __slots__ = ("_before", "_bytes", "_revision", "_volume")

    def __init__(self, volume: Volume | None = None) -> None:
        self._volume = volume or Volume()
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
