"""Count events that the runtime emitted and that never reached this process, by their numbers. Pure.

Inspections cannot find these: a container that was created and removed within a gap leaves no trace. The embedded
runtime numbers its events; for other runtimes nothing is counted here.
"""

from protocols.wire.event_numbers import EventNumber


class LostEvents:
    """`count` follows the numbers: it is exact as soon as an event after the gap arrives."""

    def __init__(self) -> None:
        self.count = 0
        self._last: EventNumber | None = None

    def received(self, position: EventNumber | None) -> None:
        if position is None:
            return
        last = self._last
        if last is None:
            self._last = position  # events before the first one were emitted before this process listened
        elif position.incarnation != last.incarnation:
            self._advance(position, position.number - 1)
        elif position.number > last.number:
            self._advance(position, position.number - last.number - 1)
        elif position.number < last.number:
            self.count = max(0, self.count - 1)  # a late one, counted as lost before; only chaos reorders events

    def _advance(self, position: EventNumber, lost: int) -> None:
        self.count += lost
        self._last = position
