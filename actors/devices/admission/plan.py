"""Which container of a pod takes its devices from where: the order of containers and the reuse of init devices.

An init container's devices go on to later containers of the pod; a sidecar and an app container keep what they take.
"""

from collections.abc import Iterable, Iterator

from actors.devices.cpu.pool import pod_need
from actors.devices.machine.placer import Passing, in_order
from actors.devices.model.errors import AdmissionRefused
from actors.devices.model.types import DeviceKey
from protocols.messages.devices import AdmitPod, ContainerAllocation, ContainerRequest, PodAllocation

INIT = "init"


def steps(pod: AdmitPod) -> Iterator[tuple[ContainerRequest, str, int]]:
    """(container, resource, count): init containers and sidecars first, then app containers; resources by name."""
    for container in in_order(pod):
        for resource, count in sorted(container.resources.items()):
            if count > 0:
                yield container, resource, count


def pod_steps(pod: AdmitPod) -> dict[str, int]:
    """What the pod needs of each resource at its peak."""
    names = sorted({resource for _, resource, _ in steps(pod)})
    return {name: pod_need((c.kind, c.resources.get(name, 0)) for c in in_order(pod)) for name in names}


class PodPlan:
    """Devices picked so far for one pod, and which of them its next containers may use again."""

    def __init__(self) -> None:
        self.chosen: dict[str, dict[str, list[str]]] = {}
        self.passing = Passing()
        """CPUs and memory, likewise."""
        self._reusable: dict[str, set[str]] = {}

    def reusable(self, resource: str) -> set[str]:
        return set(self._reusable.get(resource, ()))

    def reuse(self, resource: str, count: int) -> list[str]:
        """Up to `count` devices that an init container of this pod has had."""
        return sorted(self._reusable.get(resource, ()))[:count]

    def take(self, container: ContainerRequest, resource: str, ids: list[str]) -> None:
        """`container` gets `ids`, reused or new."""
        self.chosen.setdefault(container.name, {})[resource] = sorted(ids)
        reusable = self._reusable.setdefault(resource, set())
        if container.kind == INIT:
            reusable.update(ids)
        else:
            reusable.difference_update(ids)

    def keys(self) -> set[DeviceKey]:
        return {DeviceKey(name, id) for parts in self.chosen.values() for name, ids in parts.items() for id in ids}


def refusal(why: str) -> AdmissionRefused:
    return AdmissionRefused(f"Allocate failed due to {why}, which is unexpected")


def check_unchanged(pod: AdmitPod, known: PodAllocation) -> None:
    """Raise AdmissionRefused when a pod that has devices now asks for another number of them."""
    held = {container.name: ids_by_resource(container) for container in known.containers}
    for container, resource, count in steps(pod):
        had = len(held.get(container.name, {}).get(resource, ()))
        if had and had != count:
            raise refusal(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {had} to {count}"
            )


def check_healthy(resource: str, held: Iterable[str], healthy: Iterable[str]) -> None:
    """What a pod that has devices must show before it may start again after the machine; raises AdmissionRefused."""
    well = set(healthy)
    if not well:
        raise refusal(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not set(held) <= well:
        raise refusal(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )


def ids_by_resource(container: ContainerAllocation) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for device in container.devices:
        found.setdefault(device.resource, []).append(device.id)
    return found
