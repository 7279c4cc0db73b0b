"""The pods of the played node, with every change of them. Pure."""

from typing import NamedTuple

from protocols.wire import podresources_v1_pb2 as pb
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from supervisor.conform.profiles import Profile

NAMESPACE = "conform"
Event = pb.ListAndWatchPodResourcesResponse


class Change(NamedTuple):
    """One event, and its position."""

    position: int
    event: Event


class NodePods:
    """Pods by name, each with one container and one device."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.pods: dict[str, pb.PodResources] = {}
        self.log: list[Change] = []

    @property
    def count(self) -> int:
        return self.log[-1].position if self.log else 0

    def add(self, name: str, padding: int = 0) -> None:
        """Add a pod that has a device; `padding` are characters of its container's name."""
        pod = pb.PodResources(name=name, namespace=NAMESPACE)
        container = pod.containers.add(name=f"main{'-' * padding}")
        container.devices.add(resource_name=self.profile.resource, device_ids=[self._device(name)])
        self.pods[name] = pod
        self._note(Event.ADDED, pod)

    def delete(self, name: str) -> None:
        del self.pods[name]
        self._note(Event.DELETED, pb.PodResources(name=name, namespace=NAMESPACE))

    def _note(self, action: int, pod: pb.PodResources) -> None:
        self.log.append(Change(self.count + 1, _event(action, pod)))

    def clear(self) -> None:
        for name in list(self.pods):
            self.delete(name)

    def listed(self) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=list(self.pods.values()))

    def listed_v1alpha1(self) -> v1alpha1.ListPodResourcesResponse:
        """The fields of both have the same numbers, but for topologies, which no device has."""
        return v1alpha1.ListPodResourcesResponse.FromString(self.listed().SerializeToString())

    def allocatable(self) -> pb.AllocatableResourcesResponse:
        resource = self.profile.resource
        devices = [pb.ContainerDevices(resource_name=resource, device_ids=[self._device(name)]) for name in self.pods]
        return pb.AllocatableResourcesResponse(devices=devices)

    def _device(self, pod: str) -> str:
        return f"{self.profile.device}-of-{pod}"


def _event(action: int, pod: pb.PodResources) -> Event:
    return Event(action=action, uid=f"uid-of-{pod.name}", pod_resources=[pod])  # type: ignore[arg-type]  # a number
