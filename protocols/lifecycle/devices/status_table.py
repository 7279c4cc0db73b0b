"""Compute allocatedResourcesStatus for every pod that holds devices, and decide when to publish it.

Pure: callers pass the current time in seconds.

- A pod's status is recomputed only when the pod's devices or the health of one of them changed.
- Each pod may change BURST times at once, then at the rate given to the table. A pod over its rate waits and then
  publishes its latest state, so a state that came and went in between is never published.
- Allocation and release are published at once, whatever the rate.
- Unknown of a finished pod is published once it has lasted FINISHED_UNKNOWN_HOLD_S: its devices pass from the
  allocation to `ended-pods`, and each restart on the way makes them Unknown for a moment.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec

from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth
from protocols.messages.health import (
    CLAIM,
    HeldResource,
    PodHeld,
    PodResourceStatus,
    ResourceHealth,
    ResourceStatus,
    health_key,
    may_be_drivers,
    report_of,
    truncate_message,
)
from protocols.process.rates import TokenBucket

BURST = 3.0
"""Changes of one pod that are published at once before its rate applies."""
FINISHED_UNKNOWN_HOLD_S = 2.0
STATES = (HEALTHY, UNHEALTHY, UNKNOWN)

HealthReports = Mapping[str, DeviceHealth]
"""Latest report of each device, by `health_key`."""
StatusChanges = dict[str, PodResourceStatus | None]
"""By pod uid; None if the pod no longer holds devices."""


class StatusTable:
    """The published status of every pod, and the pods whose status must be recomputed.

    Memory is bounded by the number of allocated devices.
    """

    def __init__(
        self,
        held: Mapping[str, PodHeld],
        health: HealthReports,
        rate: float,
        finished: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        """Read `held` (by pod uid) and `health` as they change; allow each pod `rate` changes a second."""
        self._held = held
        self._health = health
        self._rate = rate
        self._finished = finished
        self._unknown_since: dict[str, float] = {}
        """Start of the hold, by uid of a finished pod."""
        self._holders = DeviceHolders()
        self._buckets: dict[str, TokenBucket] = {}
        self._dirty: set[str] = set()
        self._deferred: dict[str, float] = {}
        self.published: dict[str, PodResourceStatus] = {}
        self.suppressed = 0
        """Health changes of pods that were deferred already: they cost no message and no write."""

    def held_changed(self, uid: str) -> None:
        """Mark a pod whose set of devices changed. Its next `refresh` is never deferred by an earlier one."""
        self._holders.update(uid, self._held.get(uid) or PodHeld())
        self._deferred.pop(uid, None)
        self._dirty.add(uid)

    def health_changed(self, key: str) -> None:
        """Mark the pods that hold the device with this `health_key`."""
        for uid in self._holders.of(key):
            if uid in self._deferred:
                self.suppressed += 1
            else:
                self._dirty.add(uid)

    def holders(self, key: str) -> Iterable[str]:
        """Return the uids of the pods that hold the device with this `health_key`."""
        return self._holders.of(key)

    def next_due(self) -> float | None:
        """Return when the first deferred pod may change, or None if no pod is deferred."""
        return min(self._deferred.values(), default=None)

    def refresh(self, now: float) -> StatusChanges:
        """Recompute the marked pods and return the statuses to publish."""
        for uid in [uid for uid, due in self._deferred.items() if due <= now]:
            del self._deferred[uid]
            self._dirty.add(uid)
        changes: StatusChanges = {}
        for uid in sorted(self._dirty):
            self._refresh_pod(uid, now, changes)
        self._dirty.clear()
        return changes

    def _refresh_pod(self, uid: str, now: float, changes: StatusChanges) -> None:
        old, held = self.published.get(uid), self._held.get(uid)
        if not held:
            self._buckets.pop(uid, None)
            self._unknown_since.pop(uid, None)
            if old is not None:
                del self.published[uid]
                changes[uid] = None
            return
        new = pod_status(uid, held, self._health)
        held_until = self._held_until(uid, old, new, now)
        if old is not None and (old.containers, old.pod) == (new.containers, new.pod):
            return
        same_devices = old is not None and _device_names(old) == _device_names(new)
        allowed_at = max(held_until, self._allowed_at(uid, now) if same_devices else now)
        if allowed_at > now:
            self._deferred[uid] = allowed_at
            return
        self._take_token(uid, now)
        new = msgspec.structs.replace(new, reported_ns=oldest_report_ns(new, old, self._health))
        self.published[uid] = changes[uid] = new

    def _held_until(self, uid: str, old: PodResourceStatus | None, new: PodResourceStatus, now: float) -> float:
        """Return when devices of a finished pod that are newly Unknown may be published; now if there are none."""
        if not self._finished(uid) or not _unknown(new) - _unknown(old):
            self._unknown_since.pop(uid, None)
            return now
        return self._unknown_since.setdefault(uid, now) + FINISHED_UNKNOWN_HOLD_S

    def _allowed_at(self, uid: str, now: float) -> float:
        bucket = self._buckets.get(uid)
        return now if bucket is None else bucket.ready(now)

    def _take_token(self, uid: str, now: float) -> None:
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = self._buckets[uid] = TokenBucket(self._rate, BURST, BURST, now)
        bucket.take(now)


class DeviceHolders:
    """Index from a device's `health_key` to the uids of the pods that hold it."""

    def __init__(self) -> None:
        self._by_device: dict[str, set[str]] = defaultdict(set)
        self._by_pod: dict[str, set[str]] = {}

    def of(self, key: str) -> Iterable[str]:
        return self._by_device.get(key, ())

    def update(self, uid: str, held: PodHeld) -> None:
        for key in self._by_pod.pop(uid, ()):
            self._by_device[key].discard(uid)
            if not self._by_device[key]:
                del self._by_device[key]
        if not held:
            return
        resources = [*held.pod, *(resource for container in held.containers for resource in container.resources)]
        held_ids = {(resource.name, device_id) for resource in resources for device_id in resource.ids}
        keys = {health_key(*each) for each in held_ids} | {each[1] for each in held_ids if may_be_drivers(*each)}
        self._by_pod[uid] = keys
        for key in keys:
            self._by_device[key].add(uid)


def pod_status(uid: str, held: PodHeld, health: HealthReports) -> PodResourceStatus:
    """Return allocatedResourcesStatus of a pod and its containers.

    Entries keep the order of `held`: it is stable, and the API compares these lists as they stand.
    """
    containers = {container.name: _statuses(container.resources, health) for container in held.containers}
    return PodResourceStatus(uid=uid, containers=containers, pod=_statuses(held.pod, health))


def _statuses(resources: tuple[HeldResource, ...], health: HealthReports) -> tuple[ResourceStatus, ...]:
    return tuple(
        ResourceStatus(
            name=held.name, resources=tuple(_device_status(held.name, device_id, health) for device_id in held.ids)
        )
        for held in resources
    )


def _device_status(resource: str, device_id: str, health: HealthReports) -> ResourceHealth:
    report = report_of(health, resource, device_id)
    if report is None:
        return ResourceHealth(resourceID=device_id, health=UNKNOWN)
    # A newer plugin may report states that this version does not know; the API accepts only these three.
    state = report.health if report.health in STATES else UNKNOWN
    return ResourceHealth(resourceID=device_id, health=state, message=truncate_message(report.message))


def held_devices(statuses: Iterable[PodResourceStatus]) -> dict[tuple[str, str], int]:
    """Count the devices of these pods by resource and health, zeros included; a pod's device counts once.

    All claims are one resource, since each has a name of its own.
    """
    counts: dict[tuple[str, str], int] = {}
    for status in statuses:
        for resource, _, health in {
            (entry.name, device.resourceID, device.health)
            for entries in (*status.containers.values(), status.pod)
            for entry in entries
            for device in entry.resources
        }:
            name = CLAIM.rstrip(":") if resource.startswith(CLAIM) else resource
            for state in STATES:
                counts.setdefault((name, state), 0)
            counts[name, health] += 1
    return counts


def oldest_report_ns(new: PodResourceStatus, old: PodResourceStatus | None, health: HealthReports) -> int:
    """Return when the oldest report that is in `new` but not in `old` was received; 0 if no report made them differ."""
    if old is None:
        return 0
    before = dict(_devices(old))
    changed = (report_of(health, *key) for key, device in _devices(new) if key in before and before[key] != device)
    return min((report.changed_ns for report in changed if report is not None and report.changed_ns > 0), default=0)


def _devices(status: PodResourceStatus) -> Iterable[tuple[tuple[str, str], ResourceHealth]]:
    for entries in (*status.containers.values(), status.pod):
        for entry in entries:
            for device in entry.resources:
                yield (entry.name, device.resourceID), device


def _unknown(status: PodResourceStatus | None) -> set[tuple[str, str]]:
    return {key for key, device in _devices(status) if device.health == UNKNOWN} if status else set()


def _device_names(status: PodResourceStatus) -> list[tuple[str, str, tuple[str, ...]]]:
    scopes = [*status.containers.items(), ("", status.pod)]
    return [(scope, e.name, tuple(d.resourceID for d in e.resources)) for scope, entries in scopes for e in entries]
