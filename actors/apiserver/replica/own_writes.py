"""Writes of this process that the store has acknowledged, for replicas to apply before the watch cache's events. Pure.

A revision counts for all resources of a store. A replica at revision M may apply a write of revision N early if every
revision between them is a known write of this process: another one could be a change of the same object. So the
revisions are recorded as runs without a gap, and writes wait here until their replica has everything before them.

- A write whose answer did not come, one that changes several keys, and one of another process end a run. The
  watch cache's events lead over the gap.
- Whatever is dropped is dropped together with all runs: a run never covers a write that is no longer here.
"""

from bisect import bisect_right, insort

import msgspec

RUNS = 64
"""Most runs retained; the oldest is dropped first."""
WAITING = 1024
"""Most writes that wait, of all resources of a store."""


class OwnWrite(msgspec.Struct, frozen=True):
    """One acknowledged write of one object, and of no other key."""

    key: str
    rv: int
    guard: int
    """Revision that the object had before; 0 if the write created it."""
    raw: bytes | None
    """As stored; None if the write deleted it. The object in the answer has caches that a replica does not retain."""


class OwnWrites:
    """Own writes of one store, by the name of their resource (`Served.store`)."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        """First and last revisions of the runs, ascending."""
        self.waiting: dict[str, list[OwnWrite]] = {}
        """Writes that no replica has applied, by revision. No list is empty."""

    def add(self, name: str, write: OwnWrite) -> None:
        """Record an acknowledged write.

        A revision that is known already belongs to another history: the store was restored from a backup.
        """
        if self._run_of(write.rv) >= 0 or sum(map(len, self.waiting.values())) >= WAITING:
            self.clear()
        self._extend(write.rv)
        insort(self.waiting.setdefault(name, []), write, key=_revision)

    def take(self, name: str, settled: int, mark: int) -> OwnWrite | None:
        """Return the next write that a replica may apply, and drop those it has.

        The replica has all changes up to `settled`, and some or all of those up to `mark`. Call `applied` if it
        applied the write.
        """
        writes = self.waiting.get(name)
        while writes and writes[0].rv <= mark:
            self.applied(name)
        return writes[0] if writes and writes[0].rv <= self._known_from(settled) else None

    def applied(self, name: str) -> None:
        """Drop the oldest waiting write of a resource."""
        writes = self.waiting[name]
        del writes[0]
        if not writes:
            del self.waiting[name]

    def clear(self) -> None:
        self._firsts, self._lasts = [], []
        self.waiting.clear()

    def _run_of(self, revision: int) -> int:
        """Return the index of the run that holds the revision; -1 if there is none."""
        if self._lasts and self._lasts[-1] < revision:
            return -1
        at = bisect_right(self._firsts, revision) - 1
        return at if at >= 0 and revision <= self._lasts[at] else -1

    def _known_from(self, revision: int) -> int:
        """Return the last revision up to which all revisions after `revision` are own writes."""
        at = self._run_of(revision + 1)
        return self._lasts[at] if at >= 0 else revision

    def _extend(self, revision: int) -> None:
        """Add a revision of no run: it prolongs a run, joins two, or begins one."""
        after = bisect_right(self._firsts, revision)
        if after and self._lasts[after - 1] == revision - 1:
            after -= 1
            self._lasts[after] = revision
        else:
            self._firsts.insert(after, revision)
            self._lasts.insert(after, revision)
        if after + 1 < len(self._firsts) and self._firsts[after + 1] == revision + 1:
            del self._firsts[after + 1], self._lasts[after]
        if len(self._firsts) > RUNS:
            del self._firsts[0], self._lasts[0]


def _revision(write: OwnWrite) -> int:
    return write.rv
