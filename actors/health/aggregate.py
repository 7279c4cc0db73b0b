"""From allocations and device health to allocatedResourcesStatus of each pod. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from protocols.messages.devices import UNKNOWN, AllocatedDevice, ContainerAllocation, DeviceHealth, PodAllocation
from protocols.messages.health import PodResourceStatus, ResourceHealth, ResourceStatus

SHOWN = ("app", "sidecar")
MESSAGE_LIMIT = 1024
"""Longer ones are refused by the API."""


def health_key(resource: str, device_id: str) -> str:
    return f"{resource} {device_id}"


def pod_status(allocation: PodAllocation, health: Mapping[str, DeviceHealth]) -> PodResourceStatus | None:
    """None when no app container or sidecar of the pod holds a device."""
    containers = {
        container.name: _container(container, health)
        for container in allocation.containers
        if container.kind in SHOWN and container.devices
    }
    return PodResourceStatus(uid=allocation.uid, containers=containers) if containers else None


def _container(container: ContainerAllocation, health: Mapping[str, DeviceHealth]) -> tuple[ResourceStatus, ...]:
    """Entries by name, devices by id: a stable order, since the API compares lists as they stand."""
    grouped: dict[str, dict[str, ResourceHealth]] = defaultdict(dict)
    for device in container.devices:
        grouped[device.resource][device.id] = _device(device, health.get(health_key(device.resource, device.id)))
    return tuple(
        ResourceStatus(name=name, resources=tuple(found[device_id] for device_id in sorted(found)))
        for name, found in sorted(grouped.items())
    )


def _device(device: AllocatedDevice, known: DeviceHealth | None) -> ResourceHealth:
    if known is None:
        return ResourceHealth(resourceID=device.id, health=UNKNOWN)
    return ResourceHealth(resourceID=device.id, health=known.health, message=known.message[:MESSAGE_LIMIT])


class Holders:
    """Which pods hold a device: whom a change of its health concerns."""

    def __init__(self) -> None:
        self._by_device: dict[str, set[str]] = defaultdict(set)
        self._by_pod: dict[str, set[str]] = {}

    def of(self, key: str) -> Iterable[str]:
        return self._by_device.get(key, ())

    def update(self, uid: str, allocation: PodAllocation | None) -> None:
        for key in self._by_pod.pop(uid, ()):
            self._by_device[key].discard(uid)
            if not self._by_device[key]:
                del self._by_device[key]
        if allocation is None:
            return
        keys = {health_key(d.resource, d.id) for c in allocation.containers for d in c.devices}
        self._by_pod[uid] = keys
        for key in keys:
            self._by_device[key].add(uid)
