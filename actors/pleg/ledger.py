"""Takes in what relists, inspections and events say, and tells what changed: the cache's single writer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.pleg.build import sane_stamp
from actors.pleg.cache import Rank, StatusCache
from actors.pleg.diff import States, changes, states_of
from actors.pleg.merge import merged, with_ips_kept
from protocols.messages.pleg import PodLifecycleEvent, PodStatus
from protocols.wire import cri_pb2


@dataclass(frozen=True)
class Change:
    """What is known of one pod became `status` (None: the runtime holds nothing of it), by these events."""

    uid: str
    status: PodStatus | None
    events: list[PodLifecycleEvent]


@dataclass(frozen=True)
class RelistPlan:
    inspect: list[str]
    """Pods that differ from what is known."""
    vanished: list[str]


@dataclass
class Ledger:
    cache: StatusCache = field(default_factory=StatusCache)
    trusted: bool = False
    """A full relist was completed since the event stream opened: events may be merged into what is known."""
    stale_events: int = 0
    """Events that were older than what was known, or unusable."""

    def event(self, event: "cri_pb2.ContainerEventResponse", now_ns: int) -> Change | None:
        """Merge one event; None when it is stale or changes nothing. Only while `trusted`."""
        uid = event.pod_sandbox_status.metadata.uid
        stamp = sane_stamp(event.created_at, now_ns) or now_ns
        old = self.cache.get(uid)
        new = merged(old, event, stamp)
        accepted = self.cache.drop(uid, stamp) if new is None else self._put(old, new, stamp, Rank.EVENT)
        if not accepted:
            self.stale_events += 1
            return None
        return self._change(uid, old)

    def relist(self, stamp: int, snapshot: Mapping[str, States]) -> RelistPlan:
        """Compare a listing begun at `stamp` with what is known; pods with later knowledge are left alone."""
        entries = self.cache.entries
        known = {uid: states_of(entry.status) for uid, entry in entries.items() if entry.modified <= stamp}
        fresh = [uid for uid in snapshot if uid not in entries]
        differing = [uid for uid, states in known.items() if uid in snapshot and dict(snapshot[uid]) != states]
        return RelistPlan(inspect=fresh + differing, vanished=[uid for uid in known if uid not in snapshot])

    def inspected(self, uid: str, status: PodStatus | None, stamp: int) -> Change | None:
        """Take in an inspection begun at `stamp`; None when nothing changed or later things are known."""
        old = self.cache.get(uid)
        if status is None:
            gone = old is not None and self.cache.drop(uid, stamp)
            self.cache.observed(uid, stamp)
            return self._change(uid, old) if gone else None
        if not self._put(old, status, stamp, Rank.INSPECTION):
            self.cache.observed(uid, stamp)
            return None
        return self._change(uid, old)

    def _put(self, old: PodStatus | None, new: PodStatus, stamp: int, rank: Rank) -> bool:
        return self.cache.put(with_ips_kept(old, new), stamp, rank)

    def _change(self, uid: str, old: PodStatus | None) -> Change | None:
        new = self.cache.get(uid)
        if _content(old) == _content(new):
            return None
        return Change(uid, new, changes(uid, states_of(old), states_of(new)))


def _content(status: PodStatus | None) -> tuple[object, ...] | None:
    """All of a status but its time."""
    if status is None:
        return None
    return tuple(getattr(status, name) for name in status.__struct_fields__ if name != "timestamp_ns")
