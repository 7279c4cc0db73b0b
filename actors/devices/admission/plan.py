"""Which container of a pod takes its devices from where: the order of containers and the reuse of init devices.

An init container's devices go on to later containers of the pod; a sidecar and an app container keep what they take.
"""

from collections.abc import Iterator

from actors.devices.types import DeviceKey
from protocols.messages.devices import AdmitPod, ContainerRequest

INIT, SIDECAR, APP = "init", "sidecar", "app"


def steps(pod: AdmitPod) -> Iterator[tuple[ContainerRequest, str, int]]:
    """(container, resource, count): init containers and sidecars first, then app containers; resources by name."""
    starters = [container for container in pod.containers if container.kind != APP]
    apps = [container for container in pod.containers if container.kind == APP]
    for container in starters + apps:
        for resource, count in sorted(container.resources.items()):
            if count > 0:
                yield container, resource, count


class PodPlan:
    """Devices picked so far for one pod, and which of them its next containers may use again."""

    def __init__(self) -> None:
        self.chosen: dict[str, dict[str, list[str]]] = {}
        self._reusable: dict[str, set[str]] = {}

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
