"""Snapshots of an objects stream: the stored state, the history before it, and comparison with a replica."""

from collections.abc import Container

import msgspec

from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.window import Change
from protocols.messages.objects import ADDED, DELETED, FLOOR_KEY, HISTORY_MARK, MODIFIED, ObjectEvent


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot of the stream: state, and the history that the watch cache still has."""

    stored: dict[str, Stored] = msgspec.field(default_factory=dict)
    history: list[tuple[str, ObjectEvent]] = msgspec.field(default_factory=list)
    """Oldest first."""
    floor: int = 0
    """History is gapless above this revision."""

    def contradiction(self, held: Objects, settled: int, left_out: Container[str] = ()) -> str:
        """Return why this state cannot follow the state `held`; empty when it can.

        `settled` is a revision up to which `held` has all changes; it may have some of the next revision. Objects that
        have not changed since then must equal those in `held`. If the history has no gap, `held` and the history must
        also explain every missing object. `left_out` holds the keys of stored objects that cannot be read.
        """
        for key, stored in self.stored.items():
            old = held.get(key)
            if (stored.rv <= settled or (old is not None and old.rv == stored.rv)) and not same(old, stored):
                return f"{key} of revision {stored.rv} differs"
        if self.floor > settled:
            return ""
        gone = {obj.key for obj in held.below("") if obj.key not in self.stored and obj.key not in left_out}
        gone -= {key for key, event in self.history if event.type == DELETED and event.rv > settled}
        return f"{min(gone)} is gone without a deletion" if gone else ""

    def difference(self, held: Objects, position: int, mark: int) -> list[tuple[str, ObjectEvent]]:
        """Return the changes from `held`, which is of revision `position`, to `stored`, of `mark`, by revision.

        An object of another uid was deleted before it was created again, at some revision below that of the new one.
        Others were deleted at an unknown revision. If there is one between, their events are not of `mark`: a watch
        that ends after another event of `mark` resumes behind it, one that ends below it has to list again.
        """
        writes = []
        for key, now in self.stored.items():
            before = held.get(key)
            if before is not None and before.rv != now.rv and before.uid != now.uid:
                writes.append((key, ObjectEvent(DELETED, now.rv - 1, before.raw)))
                before = None
            if before is None:
                writes.append((key, ObjectEvent(ADDED, now.rv, now.raw)))
            elif before.rv != now.rv:
                writes.append((key, ObjectEvent(MODIFIED, now.rv, now.raw, before.raw)))
        gone_at = max(mark - 1, min(position + 1, mark))
        gone = [stored for stored in held.below("") if stored.key not in self.stored]
        writes += [(stored.key, ObjectEvent(DELETED, gone_at, stored.raw)) for stored in gone]
        # Of objects created in one revision all deletions come first.
        return sorted(writes, key=lambda write: write[1].rv)


def changes_between(held: Objects, now: dict[str, Stored], mark: int) -> list[Change]:
    """Return the changes between unrelated states: deletions at revision `mark`, then the others by revision."""
    gone = [Change(obj.key, mark, obj, None) for obj in held.below("") if obj.key not in now]
    other = [stored for stored in now.values() if not same(held.get(stored.key), stored)]
    return gone + [Change(new.key, new.rv, held.get(new.key), new) for new in sorted(other, key=lambda s: s.rv)]


def same(held: Stored | None, stored: Stored) -> bool:
    """Return True when both are the same state of an object."""
    return held is not None and held.rv == stored.rv and held.raw == stored.raw


def read_snapshot(items: list[tuple[str, ObjectEvent]], mark: int) -> Snapshot:
    """Parse a snapshot: items `@n/KEY` are the history in order, `@floor` its start, all others the state."""
    stored, history, floor = {}, [], mark
    for key, event in items:
        if key == FLOOR_KEY:
            floor = event.rv
        elif key.startswith(HISTORY_MARK):
            history.append((key.partition("/")[2], event))
        else:
            stored[key] = Stored(key, event.rv, event.object)
    return Snapshot(stored, history, floor)
