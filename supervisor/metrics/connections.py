"""Connections to the metrics page: who is let in, and who gives way. Pure; the shell closes what is chosen."""

from collections import Counter
from collections.abc import Callable

import msgspec

MOST = 32
"""Connections at once."""
MOST_OF_PEER = 24
"""Of one address: scrapers of other addresses always find room. All of this machine share one address."""
READING, MAKING, WRITING = "reading", "making", "writing"
"""The request has not come whole; its answer is made; the answer has not been taken whole."""


class Connection(msgspec.Struct, eq=False):
    peer: str
    close: Callable[[], None]
    """At once, whatever has not been sent."""
    phase: str = READING


class Connections:
    """In the order in which they came. The answer of one in the phase MAKING costs a moment, so it never gives way."""

    def __init__(self) -> None:
        self._open: list[Connection] = []

    def enter(self, connection: Connection) -> bool:
        """Let it in, instead of the one that has kept us waiting longest if need be; False when nobody gives way."""
        of_peer = [each for each in self._open if each.peer == connection.peer]
        full = len(self._open) >= MOST
        if len(of_peer) >= MOST_OF_PEER or full:
            leaving = _idlest(of_peer) if len(of_peer) >= MOST_OF_PEER else _idlest(self._of_busiest())
            if leaving is None:
                return False
            self.leave(leaving)
            leaving.close()
        self._open.append(connection)
        return True

    def leave(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.remove(connection)

    def _of_busiest(self) -> list[Connection]:
        """Connections of the address that has most of those that may give way."""
        counts = Counter(each.peer for each in self._open if each.phase != MAKING)
        busiest = counts.most_common(1)[0][0] if counts else ""
        return [each for each in self._open if each.peer == busiest]


def _idlest(connections: list[Connection]) -> Connection | None:
    for phase in (READING, WRITING):
        for connection in connections:
            if connection.phase == phase:
                return connection
    return None
