"""Merge relists, inspections and runtime events into the status cache, and return what changed. Pure.

Relists and inspections:
- A relist compares the ids and states in the runtime with the cache; pods that differ are inspected.
- A pod with knowledge later than the start of the relist is left alone.

Events (only while `trusted`, see StatusMerger):
- An event carries one sandbox and that sandbox's containers (CRI-O: all containers of the pod). Other sandboxes stay
  as they are until a relist; otherwise exited containers of an older sandbox would flicker.
- No status names its sandbox, so a known container stays where it is.
- An event that cannot be right or complete is not merged: the pod is inspected instead.
- A container moves only forward: created, running, exited.
"""

from collections.abc import Mapping

import msgspec

from actors.pleg.state_machine.cri_status import container_status, pod_status, sandbox_status, sane_stamp
from actors.pleg.state_machine.lifecycle_events import States, changes, states_of
from actors.pleg.state_machine.status_cache import CachedStatus, Rank, StatusCache
from protocols.messages.pleg import ContainerStatus, PodLifecycleEvent, PodStatus
from protocols.wire import cri_pb2


class StatusChange(msgspec.Struct, frozen=True):
    """The new status of one pod (None: gone from the runtime), with its lifecycle events."""

    uid: str
    status: PodStatus | None
    events: list[PodLifecycleEvent]
    old: States
    new: States
    since: int
    """Time up to which the pod was known before, by our clock; 0 for its first observation."""


class MergeResult(msgspec.Struct, frozen=True):
    """The outcome of merging one event."""

    change: StatusChange | None = None
    inspect: bool = False
    """The event was stale or cannot be right: inspect the pod."""


class _RelistPlan(msgspec.Struct, frozen=True):
    inspect: list[str]
    """Pods that differ from the cache."""
    vanished: list[str]


class StatusMerger(msgspec.Struct):
    """The cache and the rules by which it changes; each method returns what to publish."""

    cache: StatusCache = msgspec.field(default_factory=StatusCache)
    trusted: bool = False
    """True after a full relist that began after the last gap in the event stream; only then are events merged."""
    stale_events: int = 0
    """Events older than the cache."""

    def event(self, event: "cri_pb2.ContainerEventResponse", now_ns: int) -> MergeResult:
        """Merge one event. Only while `trusted`."""
        uid = event.pod_sandbox_status.metadata.uid
        stamp, since = sane_stamp(event.created_at, now_ns) or now_ns, self.cache.known_until(uid)
        old = self.cache.get(uid)
        if must_inspect(old, event):
            return MergeResult(inspect=True)
        new = merged(old, event, since)
        if not (self.cache.drop(uid, stamp, Rank.EVENT) if new is None else self._put(old, new, stamp, Rank.EVENT)):
            self.stale_events += 1
            return MergeResult(inspect=new is None or _content(with_ips_kept(old, new)) != _content(old))
        return MergeResult(self._change(uid, old, since))

    def owner_of(self, id_: str) -> str:
        """Return the uid of the pod of a container or sandbox, empty if unknown: for events that do not name a pod."""
        entries = self.cache.entries.items() if id_ else ()
        return next((uid for uid, entry in entries if id_ in states_of(entry.status)), "")

    def relist(self, stamp: int, snapshot: Mapping[str, States]) -> _RelistPlan:
        """Compare a listing begun at `stamp` with the cache."""
        entries = self.cache.entries
        known = {uid: states_of(entry.status) for uid, entry in entries.items() if entry.modified <= stamp}
        fresh = [uid for uid in snapshot if uid not in entries]
        uninspectable = [uid for uid in self.cache.uninspectable if uid in entries and uid in snapshot]
        differing = [uid for uid, states in known.items() if uid in snapshot and dict(snapshot[uid]) != states]
        gone = [uid for uid in {**known, **self.cache.uninspectable} if uid not in snapshot]
        return _RelistPlan(inspect=list(dict.fromkeys(fresh + differing + uninspectable)), vanished=gone)

    def inspected(
        self, uid: str, status: PodStatus | None, stamp: int, runtime_ns: int = 0, before: CachedStatus | None = None
    ) -> StatusChange | None:
        """Merge an inspection begun at `stamp` by our clock; return None if nothing changed.

        `runtime_ns` is the runtime's timestamp of its answer, 0 if it has none that is sane; `before` is the cache's
        entry when the inspection began. The clocks of runtime and pleg may differ: an answer that undoes what an event
        said meanwhile is older than the event.
        """
        old, since = self.cache.get(uid), self.cache.known_until(uid)
        if status is None:
            gone = old is not None and self.cache.drop(uid, stamp, Rank.INSPECTION)
            if gone or old is None:  # else a later event was merged meanwhile: the pod is inspected again
                self.cache.observed(uid, stamp)
            return self._change(uid, old, since) if gone else None
        entry = self.cache.entries.get(uid)
        if entry and entry is not before and entry.rank is Rank.EVENT and _moves_back(entry.status, status):
            return None
        status = msgspec.structs.replace(status, timestamp_ns=max(stamp, since))
        if not self._put(old, status, max(stamp, runtime_ns), Rank.INSPECTION, stamp):
            return None  # a later event was merged meanwhile: the pod is inspected again
        return self._change(uid, old, since)

    def _put(self, old: PodStatus | None, new: PodStatus, stamp: int, rank: Rank, observed: int = 0) -> bool:
        return self.cache.put(with_ips_kept(old, new), stamp, rank, observed)

    def _change(self, uid: str, old: PodStatus | None, since: int) -> StatusChange | None:
        new = self.cache.get(uid)
        if _content(old) == _content(new):
            return None
        before, after = states_of(old), states_of(new)
        return StatusChange(uid, new, changes(uid, before, after), before, after, since)


def _content(status: PodStatus | None) -> tuple[object, ...] | None:
    """Return everything of a status but its time."""
    if status is None:
        return None
    return (status.uid, status.name, status.namespace, status.ips, status.sandboxes, status.containers, status.error)


_ORDER = {"created": 0, "unknown": 0, "running": 1, "exited": 2}


_TYPES = frozenset(cri_pb2.ContainerEventType.values())


def must_inspect(old: PodStatus | None, event: "cri_pb2.ContainerEventResponse") -> bool:
    """Return True if the event's content cannot be right or complete.

    A known container that is missing in the payload without a deletion would otherwise look gone and be started twice.
    """
    sandbox = event.pod_sandbox_status
    if not sandbox.id or not event.container_id or event.container_event_type not in _TYPES:
        return True
    reported = {item.id for item in event.containers_statuses}
    if event.container_event_type == cri_pb2.CONTAINER_DELETED_EVENT:
        reported |= {event.container_id}
        if event.container_id == sandbox.id:
            return False
    every = _by_id(old)
    known = {item.id for item in every.values() if item.sandbox_id == sandbox.id}
    unattributed = reported - every.keys() - {event.container_id} if _has_another(old, sandbox.id) else set()
    return not known <= reported or "" in reported or bool(unattributed)


def _has_another(old: PodStatus | None, sandbox: str) -> bool:
    return old is not None and any(item.id != sandbox for item in old.sandboxes)


def merged(old: PodStatus | None, event: "cri_pb2.ContainerEventResponse", stamp_ns: int) -> PodStatus | None:
    """Return the pod after the event; None if nothing of it is left in the runtime."""
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


def _container(old: ContainerStatus | None, new_status: "cri_pb2.ContainerStatus", sandbox: str) -> ContainerStatus:
    """Return the new status unless it would move back: a container never restarts under the same id."""
    new = container_status(new_status, old.sandbox_id if old else sandbox)
    return old if old is not None and _ORDER[old.state] > _ORDER[new.state] else new


def _moves_back(old: PodStatus, new: PodStatus) -> bool:
    before = _by_id(old)
    return any(
        container.id in before and _ORDER[before[container.id].state] > _ORDER[container.state]
        for container in new.containers
    )


def with_ips_kept(old: PodStatus | None, new: PodStatus) -> PodStatus:
    """Keep the addresses of a pod whose sandbox is gone: a finished pod retains its podIP."""
    if new.ips or old is None or any(item.ready for item in new.sandboxes):
        return new
    fields = {name: getattr(new, name) for name in new.__struct_fields__}
    return PodStatus(**(fields | {"ips": old.ips}))
