"""Cache of each pod's runtime status and the time up to which it is known. Pure; StatusMerger is its only writer.

- Statuses of one pod are ordered by (timestamp, rank). At one timestamp an inspection replaces an event; an event
  never replaces an inspection.
- An event that is not newer than the last full relist is stale.
- A deleted pod leaves a tombstone, so that a late event cannot restore it.
- Only inspections and full relists advance the time up to which a pod is known; events do not.
"""

from enum import IntEnum

import msgspec

from protocols.messages.pleg import STEP_NS, PodStatus

TOMBSTONE_NS = 600 * 10**9


class Rank(IntEnum):
    """Order of statuses with one timestamp: a greater rank replaces a lower one."""

    EVENT = 0
    INSPECTION = 1


TOMBSTONES = 20_000
"""Most tombstones retained; the oldest are dropped."""


class CachedStatus(msgspec.Struct):
    """The status of one pod, with the times that order it."""

    status: PodStatus
    modified: int
    """Orders updates: the runtime's timestamp if it is sane, else our clock."""
    observed: int
    """Our clock before the last inspection: everything up to then is known."""
    rank: Rank


class StatusCache(msgspec.Struct):
    """Statuses and tombstones by pod uid. Times are nanoseconds since the epoch."""

    entries: dict[str, CachedStatus] = msgspec.field(default_factory=dict)
    tombstones: dict[str, int] = msgspec.field(default_factory=dict)
    relisted_until: int = 0
    """Start of the last successful full relist. Everything up to then is known, except of uninspectable pods."""
    newest: int = 0
    """The latest time of a status, an inspection or a full relist; never later than our clock was."""
    uninspectable: dict[str, int] = msgspec.field(default_factory=dict)
    """Listed pods whose inspection failed: uid -> time up to which relists covered the pod before."""

    def at(self, now: int) -> bool:
        """Forget what is known of a time later than `now`; return True if the clock went back.

        Otherwise nothing would count as newer until the clock reaches that time again.
        """
        if self.newest <= now + STEP_NS:
            return False
        self.relisted_until, self.newest = 0, now
        self.uninspectable = dict.fromkeys(self.uninspectable, 0)
        self.tombstones = {uid: min(at, now - 1) for uid, at in self.tombstones.items()}
        for entry in self.entries.values():
            entry.modified, entry.observed = min(entry.modified, now - 1), 0
            entry.status = msgspec.structs.replace(entry.status, timestamp_ns=min(entry.status.timestamp_ns, now - 1))
        return True

    def get(self, uid: str) -> PodStatus | None:
        entry = self.entries.get(uid)
        return entry.status if entry else None

    def put(self, status: PodStatus, stamp: int, rank: Rank, observed: int = 0) -> bool:
        """Store a status; return False if it is stale by the rules of this module."""
        if stamp <= self.tombstones.get(status.uid, -1) or (
            rank is Rank.EVENT and stamp <= self._relisted_until(status.uid)
        ):
            return False
        entry = self.entries.get(status.uid)
        if entry and (stamp, rank) < (entry.modified, entry.rank):
            return False
        if entry and stamp == entry.modified and rank is Rank.EVENT and entry.rank is Rank.INSPECTION:
            return False
        observed = max(observed, self._observed_until(status.uid))
        self.tombstones.pop(status.uid, None)
        if rank is Rank.INSPECTION:
            self.uninspectable.pop(status.uid, None)
        self.newest = max(self.newest, observed, stamp)
        self.entries[status.uid] = CachedStatus(status, stamp, observed, rank)
        return True

    def drop(self, uid: str, stamp: int, rank: Rank) -> bool:
        """Remove a pod that was gone from the runtime at `stamp`; return False if something newer is known."""
        entry = self.entries.get(uid)
        if (entry and stamp < entry.modified) or (rank is Rank.EVENT and stamp <= self._relisted_until(uid)):
            return False
        self.entries.pop(uid, None)
        self.uninspectable.pop(uid, None)
        self.newest = max(self.newest, stamp)
        self.tombstones[uid] = max(stamp, self.tombstones.get(uid, 0))
        return True

    def observed(self, uid: str, stamp: int) -> None:
        """Record an inspection begun at `stamp` that changed nothing, also one of an unknown pod."""
        self.uninspectable.pop(uid, None)
        self.newest = max(self.newest, stamp)
        if entry := self.entries.get(uid):
            entry.observed = max(entry.observed, stamp)
        else:
            self.tombstones[uid] = max(stamp, self.tombstones.get(uid, 0))
            if len(self.tombstones) > TOMBSTONES:
                del self.tombstones[next(iter(self.tombstones))]

    def completed(self, stamp: int) -> None:
        """Record a full relist begun at `stamp`, after all its pods were merged."""
        self.relisted_until = max(self.relisted_until, stamp)
        self.newest = max(self.newest, stamp)
        self.tombstones = {uid: at for uid, at in self.tombstones.items() if stamp - at < TOMBSTONE_NS}

    def known_until(self, uid: str) -> int:
        """Return the time up to which everything is known of the pod; 0 if it was never observed."""
        return max(self._relisted_until(uid), self._observed_until(uid))

    def newer_than(self, uid: str, minimum: int) -> bool:
        """Return True if the pod is known up to a time strictly later than `minimum`."""
        return self.known_until(uid) > minimum

    def mark_uninspectable(self, uid: str) -> None:
        """Record that the inspection of a listed pod failed: relists no longer cover it until one succeeds."""
        self.uninspectable.setdefault(uid, self.relisted_until)

    def _observed_until(self, uid: str) -> int:
        """Return the time of the pod's last inspection; of one that the runtime does not have, its tombstone's."""
        entry = self.entries.get(uid)
        return entry.observed if entry else self.tombstones.get(uid, 0)

    def _relisted_until(self, uid: str) -> int:
        """Return the time up to which full relists cover the pod."""
        return self.uninspectable.get(uid, self.relisted_until)
