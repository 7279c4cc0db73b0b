"""A snapshot of an objects stream, read: the stored state, the history behind it, and how far back that reaches."""

from collections.abc import Container

import msgspec

from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.window import Change
from protocols.messages.objects import ADDED, DELETED, FLOOR_KEY, HISTORY_MARK, MODIFIED, ObjectEvent


class Resync(msgspec.Struct, frozen=True):
    stored: dict[str, Stored] = msgspec.field(default_factory=dict)
    history: list[tuple[str, ObjectEvent]] = msgspec.field(default_factory=list)
    """Oldest first."""
    floor: int = 0
    """History is gapless above this revision."""

    def contradiction(self, held: Objects, settled: int, left_out: Container[str] = ()) -> str:
        """Return why this state does not continue the one `held`; empty when it does.

        `settled`: all changes up to this revision are in `held`, and some of the next one may be. Objects that have not
        changed since must be those held. With a gapless history, what is held and what happened since must also make
        the whole state. `left_out`: keys of what is stored and cannot be read.
        """
        for key, stored in self.stored.items():
            old = held.get(key)
            if (stored.rv <= settled or (old is not None and old.rv == stored.rv)) and not same(old, stored):
                return f"{key} of revision {stored.rv} differs"
        if self.floor > settled:
            return ""
        gone = {each.key for each in held.below("") if each.key not in self.stored and each.key not in left_out}
        gone -= {key for key, event in self.history if event.type == DELETED and event.rv > settled}
        return f"{min(gone)} is gone without a deletion" if gone else ""

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


def changes_between(held: Objects, now: dict[str, Stored], mark: int) -> list[Change]:
    """Changes from one state to an unrelated one: deletions, dated `mark`, then the others by revision."""
    gone = [Change(each.key, mark, each, None) for each in held.below("") if each.key not in now]
    other = [stored for stored in now.values() if not same(held.get(stored.key), stored)]
    return gone + [Change(each.key, each.rv, held.get(each.key), each) for each in sorted(other, key=lambda s: s.rv)]


def same(held: Stored | None, stored: Stored) -> bool:
    """Return True when both are one state of one object."""
    return held is not None and held.rv == stored.rv and held.raw == stored.raw


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
