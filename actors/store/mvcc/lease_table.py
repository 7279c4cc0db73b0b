"""Leases in memory, with their deadlines and keys. Pure; callers pass monotonic time."""

import heapq
import math

from actors.store.model.types import Commit, KeyChange, LeaseRecord
from protocols.etcd.types import KeyValue


class LeaseTable:
    """Leases by id.

    A restart of the store gives each lease its whole TTL again, as etcd does: no clock shows reliably how long the
    store was down, and a clock jump would expire all leases at once.
    """

    def __init__(self) -> None:
        self._records: dict[int, LeaseRecord] = {}
        self._keys: dict[int, set[bytes]] = {}
        self._deadlines: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def load(self, records: list[LeaseRecord], current: list[KeyValue], now: float) -> None:
        """Load stored leases."""
        for record in records:
            self._add(record)
            self.extend(record.id, now + record.ttl)
        for kv in current:
            if kv.lease in self._keys:
                self._keys[kv.lease].add(kv.key)

    def get(self, lease: int) -> LeaseRecord | None:
        return self._records.get(lease)

    def keys(self, lease: int) -> set[bytes]:
        return self._keys.get(lease, set())

    def ids(self) -> list[int]:
        return sorted(self._records)

    def left(self, lease: int, now: float) -> int:
        """Return the remaining seconds, rounded down as etcd does."""
        return max(0, math.floor(self._deadlines[lease] - now))

    def extend(self, lease: int, deadline: float) -> None:
        self._deadlines[lease] = deadline
        heapq.heappush(self._heap, (deadline, lease))
        if len(self._heap) > 64 + 4 * len(self._deadlines):
            self._heap = sorted((at, held) for held, at in self._deadlines.items())

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None without leases."""
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expired(self, now: float) -> list[int]:
        return [lease for lease in self._deadlines if self.is_expired(lease, now)]

    def is_expired(self, lease: int, now: float) -> bool:
        """Return False also for a lease that is gone."""
        return self._deadlines.get(lease, math.inf) <= now

    def apply(self, commit: Commit, now: float) -> None:
        """Apply a commit; the TTL of a new lease begins now."""
        for record in commit.leases:  # one may have been revoked and granted anew in this commit
            self._add(record)
            self.extend(record.id, now + record.ttl)
        for change in commit.changes:
            self._move(change)
        for lease in commit.revoked:
            self._records.pop(lease, None)
            self._keys.pop(lease, None)
            self._deadlines.pop(lease, None)

    def _add(self, record: LeaseRecord) -> None:
        self._records[record.id] = record
        self._keys.setdefault(record.id, set())

    def _move(self, change: KeyChange) -> None:
        if change.previous and change.previous.lease in self._keys:
            self._keys[change.previous.lease].discard(change.kv.key)
        if change.kv.lease in self._keys:
            self._keys[change.kv.lease].add(change.kv.key)
