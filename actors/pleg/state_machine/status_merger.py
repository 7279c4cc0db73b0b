"""Takes in what relists, inspections and events say, and tells what changed: the cache's single writer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from actors.pleg.state_machine.cri_status import container_status, pod_status, sandbox_status, sane_stamp
from actors.pleg.state_machine.lifecycle_events import States, changes, states_of
from actors.pleg.state_machine.status_cache import Rank, StatusCache
from protocols.messages.pleg import ContainerStatus, PodLifecycleEvent, PodStatus
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


_ORDER = {"created": 0, "unknown": 0, "running": 1, "exited": 2}


_TYPES = frozenset(cri_pb2.ContainerEventType.values())


def doubtful(old: PodStatus | None, event: "cri_pb2.ContainerEventResponse") -> bool:
    """Whether the event's content cannot be right or complete, so that the pod has to be inspected instead.

    A container that is known, not said to be deleted, and missing in the payload would otherwise look as if it were
    gone, and be started a second time.
    """
    sandbox = event.pod_sandbox_status
    if not sandbox.id or not event.container_id or event.container_event_type not in _TYPES:
        return True
    told = {item.id for item in event.containers_statuses}
    if event.container_event_type == cri_pb2.CONTAINER_DELETED_EVENT:
        told |= {event.container_id}
        if event.container_id == sandbox.id:
            return False
    every = _by_id(old)
    known = {item.id for item in every.values() if item.sandbox_id == sandbox.id}
    homeless = told - every.keys() - {event.container_id} if _has_another(old, sandbox.id) else set()
    return not known <= told or "" in told or bool(homeless)


def _has_another(old: PodStatus | None, sandbox: str) -> bool:
    return old is not None and any(item.id != sandbox for item in old.sandboxes)


def merged(old: PodStatus | None, event: "cri_pb2.ContainerEventResponse", stamp_ns: int) -> PodStatus | None:
    """The pod after the event; None when the runtime holds nothing of it any more."""
    sandbox = event.pod_sandbox_status
    deleted = event.container_id if event.container_event_type == cri_pb2.CONTAINER_DELETED_EVENT else ""
    sandboxes = {item.id: item for item in (old.sandboxes if old else ())} | {sandbox.id: sandbox_status(sandbox)}
    known = _by_id(old)
    fresh = {item.id: item for item in event.containers_statuses if item.id != deleted}
    if deleted == sandbox.id:
        del sandboxes[sandbox.id]
        fresh = {}
    kept = [item for item in known.values() if item.sandbox_id != sandbox.id and item.id not in fresh]
    if not sandboxes and not kept:
        return None
    containers = [_container(known.get(id_), item, sandbox.id) for id_, item in fresh.items()]
    return pod_status(sandbox.metadata, sandboxes.values(), [*kept, *containers], stamp_ns)


def _by_id(status: PodStatus | None) -> dict[str, ContainerStatus]:
    return {item.id: item for item in (status.containers if status else ())}


def _container(old: ContainerStatus | None, told: "cri_pb2.ContainerStatus", sandbox: str) -> ContainerStatus:
    """Containers do not restart under one id: created -> running -> exited, never back."""
    new = container_status(told, old.sandbox_id if old else sandbox)
    return old if old is not None and _ORDER[old.state] > _ORDER[new.state] else new


def with_ips_kept(old: PodStatus | None, new: PodStatus) -> PodStatus:
    """A pod whose sandbox is gone keeps the addresses it had, else a finished pod would lose its podIP."""
    if new.ips or old is None or any(item.ready for item in new.sandboxes):
        return new
    fields = {name: getattr(new, name) for name in new.__struct_fields__}
    return PodStatus(**(fields | {"ips": old.ips}))
