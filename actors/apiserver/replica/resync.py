"""A snapshot of an objects stream, read: the stored state, the history behind it, and how far back that reaches."""

import msgspec

from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.stored import Stored
from protocols.messages.objects import ADDED, DELETED, FLOOR_KEY, HISTORY_MARK, MODIFIED, ObjectEvent


class Resync(msgspec.Struct, frozen=True):
    stored: dict[str, Stored] = msgspec.field(default_factory=dict)
    history: list[tuple[str, ObjectEvent]] = msgspec.field(default_factory=list)
    """Oldest first."""
    floor: int = 0
    """History is gapless above this revision."""

    def difference(self, held: Objects, mark: int) -> list[tuple[str, ObjectEvent]]:
        """Changes that turn `held` into `stored`: writes by revision, then deletions, dated `mark`."""
        writes = []
        for key, now in sorted(self.stored.items(), key=lambda item: item[1].rv):
            before = held.get(key)
            if before is None:
                writes.append((key, ObjectEvent(ADDED, now.rv, now.raw)))
            elif before.rv != now.rv:
                writes.append((key, ObjectEvent(MODIFIED, now.rv, now.raw, before.raw)))
        gone = [stored for stored in held.below("") if stored.key not in self.stored]
        return writes + [(stored.key, ObjectEvent(DELETED, mark, stored.raw)) for stored in gone]


def read_snapshot(items: list[tuple[str, ObjectEvent]], mark: int) -> Resync:
    """Keys `@n/KEY` are history in order, `@floor` says how far back it reaches; every other item is the state."""
    stored, history, floor = {}, [], mark
    for key, event in items:
        if key == FLOOR_KEY:
            floor = event.rv
        elif key.startswith(HISTORY_MARK):
            history.append((key.partition("/")[2], event))
        else:
            stored[key] = Stored(key, event.rv, event.object)
    return Resync(stored, history, floor)
