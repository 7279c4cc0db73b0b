"""Devices of pods that are over: their claims were given back, but their statuses still tell how the devices are."""

from collections.abc import Callable

from actors.devices.dra.types import DeviceName
from protocols.bus import Bus, Op, Replica
from protocols.messages import podworker
from protocols.messages.held import CLAIM, HeldResource, PodHeld
from protocols.messages.podworker import EndedPod


class Remembered:
    """`changed`: other devices than before are to be told of."""

    def __init__(self, bus: Bus, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._pods = Replica[EndedPod](self._on_pod)
        bus.follow(owner=podworker.OWNER, stream=podworker.ENDED_PODS, sink=self._pods, type=EndedPod)

    def names(self) -> set[DeviceName]:
        return {name for pod in self._pods.items.values() for name in claimed(pod.held)}

    def _on_pod(self, op: Op, uid: str, new: EndedPod | None, old: EndedPod | None) -> None:
        if any(pod is not None and claimed(pod.held) for pod in (new, old)):
            self._changed()


def claimed(held: PodHeld) -> set[DeviceName]:
    """Devices of claims, of all that a pod held."""
    resources = [*held.pod, *(resource for container in held.containers for resource in container.resources)]
    return {name for resource in resources for name in _names(resource)}


def _names(resource: HeldResource) -> list[DeviceName]:
    if not resource.name.startswith(CLAIM):
        return []
    parts = [one.split("/") for one in resource.ids]
    return [DeviceName(part[0], "/".join(part[1:-1]), part[-1]) for part in parts if len(part) > 2]
