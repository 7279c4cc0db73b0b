"""Each pod's runtime status with the time it is true for: what waits for news asks here. Pure, a single writer.

Order of two statuses of one pod: (timestamp, rank); at one timestamp an inspection beats an event, an event never
beats an inspection. A deleted pod leaves a tombstone, so that a late event cannot bring it back.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from protocols.messages.pleg import PodStatus

TOMBSTONE_NS = 600 * 10**9


class Rank(IntEnum):
    EVENT = 0
    INSPECTION = 1


TOMBSTONES = 20_000
"""Kept at most; beyond it the oldest go."""


@dataclass
class Entry:
    status: PodStatus
    modified: int
    """Orders what is put in: the runtime's stamp where there is a sane one."""
    observed: int
    """Our clock before the last inspection: everything up to then is known. Events do not move it."""
    rank: Rank


@dataclass
class StatusCache:
    """All times are nanoseconds since the epoch."""

    entries: dict[str, Entry] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)
    complete: int = 0
    """Start of the last full relist that ended well: everything is known at least up to then, but for the unsure."""
    unsure: dict[str, int] = field(default_factory=dict)
    """Pods the runtime lists and tells nothing usable of: no relist speaks of them until an inspection ends well.
    Pod uid -> up to when relists had told everything of it."""

    def get(self, uid: str) -> PodStatus | None:
        entry = self.entries.get(uid)
        return entry.status if entry else None

    def put(self, status: PodStatus, stamp: int, rank: Rank, observed: int = 0) -> bool:
        """False when older than what is known, than the pod's deletion, or (events) than the last full relist."""
        if stamp <= self.tombstones.get(status.uid, -1) or (rank is Rank.EVENT and stamp <= self._told(status.uid)):
            return False
        entry = self.entries.get(status.uid)
        if entry and (stamp, rank) < (entry.modified, entry.rank):
            return False
        if entry and stamp == entry.modified and rank is Rank.EVENT and entry.rank is Rank.INSPECTION:
            return False
        self.tombstones.pop(status.uid, None)
        if rank is Rank.INSPECTION:
            self.unsure.pop(status.uid, None)
        observed = max(observed, entry.observed if entry else 0)
        self.entries[status.uid] = Entry(status, stamp, observed, rank)
        return True

    def drop(self, uid: str, stamp: int, rank: Rank) -> bool:
        """The runtime holds nothing of the pod at `stamp`; False when something newer is known."""
        entry = self.entries.get(uid)
        if (entry and stamp < entry.modified) or (rank is Rank.EVENT and stamp <= self._told(uid)):
            return False
        self.entries.pop(uid, None)
        self.unsure.pop(uid, None)
        self.tombstones[uid] = max(stamp, self.tombstones.get(uid, 0))
        return True

    def observed(self, uid: str, stamp: int) -> None:
        """An inspection begun at `stamp` found what is already known (also: that nothing is)."""
        self.unsure.pop(uid, None)
        if entry := self.entries.get(uid):
            entry.observed = max(entry.observed, stamp)
        else:
            self.tombstones[uid] = max(stamp, self.tombstones.get(uid, 0))
            if len(self.tombstones) > TOMBSTONES:
                del self.tombstones[next(iter(self.tombstones))]

    def completed(self, stamp: int) -> None:
        """A full relist begun at `stamp` has been taken in, every pod of it."""
        self.complete = max(self.complete, stamp)
        self.tombstones = {uid: at for uid, at in self.tombstones.items() if stamp - at < TOMBSTONE_NS}

    def certain(self, uid: str) -> int:
        """Up to when everything is known of the pod; 0: it was never looked at."""
        entry = self.entries.get(uid)
        return max(self._told(uid), entry.observed if entry else 0)

    def newer_than(self, uid: str, minimum: int) -> bool:
        """Whether what is known of the pod is strictly later than `minimum`."""
        entry = self.entries.get(uid)
        known = entry.observed if entry else self.tombstones.get(uid, 0)
        return self._told(uid) > minimum or known > minimum

    def doubt(self, uid: str) -> None:
        """The runtime holds the pod and tells nothing usable of it."""
        self.unsure.setdefault(uid, self.complete)

    def _told(self, uid: str) -> int:
        """Up to when full relists have told everything of the pod."""
        return self.unsure.get(uid, self.complete)
