"""From what pods hold and the health of devices to allocatedResourcesStatus. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth
from protocols.messages.health import PodResourceStatus, ResourceHealth, ResourceStatus
from protocols.messages.held import HeldResource, PodHeld, health_key

MESSAGE_LIMIT = 1024
"""Bytes; longer ones are refused by the API."""
STATES = (HEALTHY, UNHEALTHY, UNKNOWN)
ELLIPSIS = "..."

Healths = Mapping[str, DeviceHealth]
"""By `health_key`."""


def pod_status(uid: str, held: PodHeld, health: Healths) -> PodResourceStatus:
    containers = {container.name: _entries(container.resources, health) for container in held.containers}
    return PodResourceStatus(uid=uid, containers=containers, pod=_entries(held.pod, health))


def _entries(resources: tuple[HeldResource, ...], health: Healths) -> tuple[ResourceStatus, ...]:
    """In the order they are held: it is stable, and the API compares lists as they stand."""
    return tuple(
        ResourceStatus(name=held.name, resources=tuple(_device(held.name, one, health) for one in held.ids))
        for held in resources
    )


def _device(name: str, resource_id: str, health: Healths) -> ResourceHealth:
    """What nobody told of is Unknown, and so is a state that only later versions know."""
    known = health.get(health_key(name, resource_id))
    if known is None:
        return ResourceHealth(resourceID=resource_id, health=UNKNOWN)
    state = known.health if known.health in STATES else UNKNOWN
    return ResourceHealth(resourceID=resource_id, health=state, message=cut(known.message))


def cut(message: str) -> str:
    """At most MESSAGE_LIMIT bytes, no character broken."""
    raw = message.encode(errors="replace")
    if len(raw) <= MESSAGE_LIMIT:
        return raw.decode()
    return raw[: MESSAGE_LIMIT - len(ELLIPSIS)].decode(errors="ignore") + ELLIPSIS


def reported_ns(new: PodResourceStatus, old: PodResourceStatus | None, health: Healths) -> int:
    """When the oldest of the reports that make `new` another than `old` was heard; 0 = no report did."""
    if old is None:
        return 0
    before = dict(_devices(old))
    changed = (health.get(key) for key, device in _devices(new) if key in before and before[key] != device)
    return min((known.changed_ns for known in changed if known is not None and known.changed_ns > 0), default=0)


def _devices(status: PodResourceStatus) -> Iterable[tuple[str, ResourceHealth]]:
    for entries in (*status.containers.values(), status.pod):
        for entry in entries:
            for device in entry.resources:
                yield health_key(entry.name, device.resourceID), device


class Holders:
    """Which pods hold a device: whom a change of its health concerns."""

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
        keys = {health_key(resource.name, one) for resource in resources for one in resource.ids}
        self._by_pod[uid] = keys
        for key in keys:
            self._by_device[key].add(uid)
