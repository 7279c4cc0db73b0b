"""The events of one stream by position: a bounded memory for clients that come back. Pure.

A position is a 64-bit number that only grows: lineage in the upper 32 bits, a count in the lower.
"""

from collections import deque
from collections.abc import Iterable

from actors.frontdoor.errors import MetadataInvalid, PositionLost
from actors.frontdoor.types import Entry


class Journal:
    """`position` is where the state stands; `since` can tell everything after `floor`."""

    def __init__(self, size: int) -> None:
        self.position = 0
        self.floor = 0
        self._entries: deque[Entry] = deque()
        self._size = size

    def begin(self, position: int) -> None:
        """Nothing before `position` can be told."""
        self.position = self.floor = position
        self._entries.clear()

    def append(self, entry: Entry) -> None:
        self.position = entry.position
        self._entries.append(entry)
        if len(self._entries) > self._size:
            self.floor = self._entries.popleft().position

    def advance(self, position: int) -> None:
        """The position moved without a message."""
        self.position = max(self.position, position)

    def since(self, position: int) -> list[Entry]:
        """Every entry after `position`; raises PositionLost when some are gone, or it never was one of ours."""
        if not self.floor <= position <= self.position:
            raise PositionLost(f"position {revision(position)} is not kept any more; start again with a snapshot")
        return [entry for entry in self._entries if entry.position > position]

    def prepend(self, entries: Iterable[Entry], floor: int) -> None:
        """Older entries, learned later: they end where this journal begins."""
        room = self._size - len(self._entries)
        older = list(entries)
        kept = older[len(older) - min(room, len(older)) :]
        self.floor = floor if len(kept) == len(older) else older[len(older) - len(kept) - 1].position
        self._entries.extendleft(reversed(kept))


def revision(position: int) -> str:
    """How a position is told to clients: LINEAGE-COUNT."""
    return f"{position >> 32:x}-{position & 0xFFFFFFFF}"


def parse_revision(text: str) -> int:
    """The inverse; also takes the plain number of field 1000. Raises MetadataInvalid."""
    lineage, dash, count = text.partition("-")
    try:
        position = (int(lineage, 16) << 32) + int(count) if dash else int(text)
    except ValueError:
        position = -1
    if not 0 <= position < 1 << 64 or (dash and int(count) >> 32):
        raise MetadataInvalid(f'"{text[:80]}" is no revision; give back what nodeplane-revision said')
    return position
