"""Takes in what relists, inspections and events say, and tells what changed: the cache's single writer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from actors.pleg.build import sane_stamp
from actors.pleg.cache import Rank, StatusCache
from actors.pleg.diff import States, changes, states_of
from actors.pleg.merge import doubtful, merged, with_ips_kept
from protocols.messages.pleg import PodLifecycleEvent, PodStatus
from protocols.wire import cri_pb2


@dataclass(frozen=True)
class Change:
    """What is known of one pod became `status` (None: the runtime holds nothing of it), by these events."""

    uid: str
    status: PodStatus | None
    events: list[PodLifecycleEvent]
    old: States
    new: States
    since: int
    """Up to when everything of the pod was known before, by our clock; 0: this is the first look."""


@dataclass(frozen=True)
class Taken:
    """What became of one event."""

    change: Change | None = None
    doubt: bool = False
    """It was stale or cannot be right: the pod has to be inspected."""


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

    def event(self, event: "cri_pb2.ContainerEventResponse", now_ns: int) -> Taken:
        """Merge one event. Only while `trusted`."""
        uid = event.pod_sandbox_status.metadata.uid
        stamp, since = sane_stamp(event.created_at, now_ns) or now_ns, self.cache.certain(uid)
        old = self.cache.get(uid)
        if doubtful(old, event):
            return Taken(doubt=True)
        new = merged(old, event, since)
        if not (self.cache.drop(uid, stamp, Rank.EVENT) if new is None else self._put(old, new, stamp, Rank.EVENT)):
            self.stale_events += 1
            return Taken(doubt=new is None or _content(with_ips_kept(old, new)) != _content(old))
        return Taken(self._change(uid, old, since))

    def owner_of(self, id_: str) -> str:
        """The pod of a container or sandbox; empty when unknown. Only for events that do not name their pod."""
        entries = self.cache.entries.items() if id_ else ()
        return next((uid for uid, entry in entries if id_ in states_of(entry.status)), "")

    def relist(self, stamp: int, snapshot: Mapping[str, States]) -> RelistPlan:
        """Compare a listing begun at `stamp` with what is known; pods with later knowledge are left alone."""
        entries = self.cache.entries
        known = {uid: states_of(entry.status) for uid, entry in entries.items() if entry.modified <= stamp}
        fresh = [uid for uid in snapshot if uid not in entries]
        unsure = [uid for uid in self.cache.unsure if uid in entries and uid in snapshot]
        differing = [uid for uid, states in known.items() if uid in snapshot and dict(snapshot[uid]) != states]
        gone = [uid for uid in {**known, **self.cache.unsure} if uid not in snapshot]
        return RelistPlan(inspect=list(dict.fromkeys(fresh + differing + unsure)), vanished=gone)

    def inspected(self, uid: str, status: PodStatus | None, stamp: int, told: int = 0) -> Change | None:
        """Take in an inspection begun at `stamp` by our clock, stamped `told` by the runtime (0: not, or not sanely).

        None when nothing changed or later things are known.
        """
        old, since = self.cache.get(uid), self.cache.certain(uid)
        if status is None:
            gone = old is not None and self.cache.drop(uid, stamp, Rank.INSPECTION)
            self.cache.observed(uid, stamp)
            return self._change(uid, old, since) if gone else None
        status = msgspec.structs.replace(status, timestamp_ns=max(stamp, since))
        if not self._put(old, status, max(stamp, told), Rank.INSPECTION, stamp):
            return None  # an event told of something later; the pod stays uncertain and is looked at again
        return self._change(uid, old, since)

    def _put(self, old: PodStatus | None, new: PodStatus, stamp: int, rank: Rank, observed: int = 0) -> bool:
        return self.cache.put(with_ips_kept(old, new), stamp, rank, observed)

    def _change(self, uid: str, old: PodStatus | None, since: int) -> Change | None:
        new = self.cache.get(uid)
        if _content(old) == _content(new):
            return None
        before, after = states_of(old), states_of(new)
        return Change(uid, new, changes(uid, before, after), before, after, since)


def _content(status: PodStatus | None) -> tuple[object, ...] | None:
    """All of a status but its time."""
    if status is None:
        return None
    return (status.uid, status.name, status.namespace, status.ips, status.sandboxes, status.containers, status.error)
