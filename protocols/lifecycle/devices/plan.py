"""The devices picked for each container of a pod, and the checks of a pod that holds devices already. Pure.

Init containers pass their devices on to later containers of the pod; sidecars and app containers keep theirs. Messages
are kubelet's.
"""

from collections.abc import Iterable, Iterator

from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.types import DeviceKey
from protocols.lifecycle.errors import AdmissionRejected
from protocols.messages.devices import AdmitPod, AllocatedDevice, ContainerAllocation, ContainerRequest, PodAllocation

INIT, APP = "init", "app"


def in_order(pod: AdmitPod) -> list[ContainerRequest]:
    """Return containers in starting order: init containers and sidecars, then app containers."""
    starters = [container for container in pod.containers if container.kind != APP]
    return starters + [container for container in pod.containers if container.kind == APP]


def steps(pod: AdmitPod) -> Iterator[tuple[ContainerRequest, str, int]]:
    """Yield (container, resource, count) in starting order: init containers and sidecars, then app containers."""
    for container in in_order(pod):
        for resource, count in sorted(container.resources.items()):
            if count > 0:
                yield container, resource, count


class DevicePlan:
    """Devices picked so far for one pod, and which of them later containers may reuse."""

    def __init__(self) -> None:
        self.chosen: dict[str, dict[str, list[str]]] = {}
        self._reusable: dict[str, set[str]] = {}

    def reusable(self, resource: str) -> set[str]:
        return set(self._reusable.get(resource, ()))

    def reuse(self, resource: str, count: int) -> list[str]:
        """Return up to `count` devices that an init container of this pod holds."""
        return sorted(self._reusable.get(resource, ()))[:count]

    def take(self, container: ContainerRequest, resource: str, ids: list[str]) -> None:
        """Assign new or reused devices to a container."""
        self.chosen.setdefault(container.name, {})[resource] = sorted(ids)
        reusable = self._reusable.setdefault(resource, set())
        if container.kind == INIT:
            reusable.update(ids)
        else:
            reusable.difference_update(ids)

    def keys(self) -> set[DeviceKey]:
        return {DeviceKey(name, id) for parts in self.chosen.values() for name, ids in parts.items() for id in ids}


def rejection(why: str) -> AdmissionRejected:
    """Return the error of a pod that cannot have its devices, in kubelet's words."""
    return AdmissionRejected(f"Allocate failed due to {why}, which is unexpected")


def check_unchanged(pod: AdmitPod, known: PodAllocation) -> None:
    """Raise AdmissionRejected if a pod that holds devices requests another number of them now."""
    held = {container.name: ids_by_resource(container) for container in known.containers}
    for container, resource, count in steps(pod):
        had = len(held.get(container.name, {}).get(resource, ()))
        if had and had != count:
            raise rejection(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {had} to {count}"
            )


def check_healthy(resource: str, held: Iterable[str], healthy: Iterable[str]) -> None:
    """Raise AdmissionRejected unless the held devices are healthy: the condition for a start after a reboot."""
    well = set(healthy)
    if not well:
        raise rejection(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not set(held) <= well:
        raise rejection(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )


def ids_by_resource(container: ContainerAllocation) -> dict[str, list[str]]:
    """Return ids of devices by resource, in the order of the allocation."""
    ids: dict[str, list[str]] = {}
    for device in container.devices:
        ids.setdefault(device.resource, []).append(device.id)
    return ids


def planned_allocation(pod: AdmitPod, plan: DevicePlan, inventory: Inventory) -> PodAllocation:
    """Return the allocation of the planned devices, without CPUs and memory."""

    def device(resource: str, id: str) -> AllocatedDevice:
        reported = inventory.reported(DeviceKey(resource, id))
        return AllocatedDevice(resource=resource, id=id, numa=reported.numa if reported else ())

    containers = []
    for item in pod.containers:
        chosen = plan.chosen.get(item.name, {})
        devices = tuple(device(resource, id) for resource in sorted(chosen) for id in sorted(chosen[resource]))
        containers.append(ContainerAllocation(item.name, item.kind, devices))
    return PodAllocation(pod.uid, pod.namespace, pod.name, tuple(containers))
