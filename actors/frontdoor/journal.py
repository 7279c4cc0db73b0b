"""The events of one stream by position: a bounded memory for clients that come back. Pure.

A position is a number that only grows. Clients see it as LINEAGE-COUNT: the lineage is the part from MARK_SHIFT on of
where the ledger began, the count is what was added since, however much that is.
"""

import re
from collections import deque
from collections.abc import Iterable

from actors.frontdoor.errors import MetadataInvalid, PositionLost
from actors.frontdoor.types import Entry
from protocols.messages.devices import MARK_SHIFT

_REVISION = re.compile(r"([0-9a-f]{1,16})-([0-9]{1,19})", re.ASCII)


class Journal:
    """`position` is where the state stands; `since` can tell everything after `floor`."""

    def __init__(self, size: int) -> None:
        self.position = 0
        self.floor = 0
        self.base = 0
        """The lineage, as the position at which its count is 0."""
        self._entries: deque[Entry] = deque()
        self._size = size

    def begin(self, position: int) -> None:
        """Nothing before `position` can be told."""
        self.position = self.floor = position
        self.base = position >> MARK_SHIFT << MARK_SHIFT
        self._entries.clear()

    def append(self, entry: Entry) -> None:
        self.advance(entry.position)
        self._entries.append(entry)
        if len(self._entries) > self._size:
            self.floor = self._entries.popleft().position

    def advance(self, position: int) -> None:
        """The position moved, by itself or by an entry."""
        self.position = max(self.position, position)

    def since(self, position: int) -> list[Entry]:
        """Every entry after `position`; raises PositionLost when some are gone, or it never was one of ours."""
        if not self.floor <= position <= self.position:
            raise PositionLost(f"position {self.revision(position)} is not kept; start again with a snapshot")
        return [entry for entry in self._entries if entry.position > position]

    def prepend(self, entries: Iterable[Entry], floor: int) -> None:
        """Older entries, learned later: they end where this journal begins."""
        older = list(entries)
        dropped = max(0, len(older) + len(self._entries) - self._size)
        self.floor = older[dropped - 1].position if dropped else floor
        self._entries.extendleft(reversed(older[dropped:]))

    def revision(self, position: int | None = None) -> str:
        """How a position (the newest one) is told to clients."""
        told = self.position if position is None else position
        base = self.base if told >= self.base else told >> MARK_SHIFT << MARK_SHIFT
        return f"{base >> MARK_SHIFT:x}-{told - base}"


def parse_revision(text: str) -> int:
    """The position a client names. Raises MetadataInvalid."""
    match = _REVISION.fullmatch(text)
    position = (int(match[1], 16) << MARK_SHIFT) + int(match[2]) if match else -1
    if not 0 <= position < 1 << 63:
        raise MetadataInvalid(f'"{text[:80]}" is no revision; give back what nodeplane-revision said')
    return position
