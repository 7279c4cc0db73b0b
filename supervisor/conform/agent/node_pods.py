"""The pods of the played node, with every change of them. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from protocols.wire import podresources_v1_pb2 as pb
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from supervisor.conform.profiles import Profile

NAMESPACE = "conform"
Event = pb.ListAndWatchPodResourcesResponse
Key = tuple[str, str]
"""Namespace and name of a pod."""


class PodChange(NamedTuple):
    """One event, and its position."""

    position: int
    event: Event


class NodePods:
    """Pods by namespace and name."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.pods: dict[Key, pb.PodResources] = {}
        self.log: list[PodChange] = []

    @property
    def count(self) -> int:
        return self.log[-1].position if self.log else 0

    def add(self, name: str, padding: int = 0, namespace: str = NAMESPACE) -> None:
        """Add a pod with one container that has one device; `padding` are characters of its container's name."""
        container = pb.ContainerResources(name=f"main{'-' * padding}", devices=[self.device(name)])
        self.put(name, [container], namespace)

    def put(self, name: str, containers: Sequence[pb.ContainerResources], namespace: str = NAMESPACE) -> None:
        """Add a pod, or change it."""
        action = Event.UPDATED if (namespace, name) in self.pods else Event.ADDED
        pod = pb.PodResources(name=name, namespace=namespace, containers=containers)
        self.pods[namespace, name] = pod
        self._note(action, pod)

    def delete(self, name: str, namespace: str = NAMESPACE) -> None:
        del self.pods[namespace, name]
        self._note(Event.DELETED, pb.PodResources(name=name, namespace=namespace))

    def _note(self, action: int, pod: pb.PodResources) -> None:
        self.log.append(PodChange(self.count + 1, _event(action, pod)))

    def clear(self) -> None:
        for namespace, name in list(self.pods):
            self.delete(name, namespace)

    def listed(self) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=list(self.pods.values()))

    def listed_v1alpha1(self) -> v1alpha1.ListPodResourcesResponse:
        """The fields of both have the same numbers, but for topologies, which are unknown to v1alpha1."""
        return v1alpha1.ListPodResourcesResponse.FromString(self.listed().SerializeToString())

    def allocatable(self) -> pb.AllocatableResourcesResponse:
        return pb.AllocatableResourcesResponse(devices=[self.device(name) for _, name in self.pods])

    def device(self, pod: str) -> pb.ContainerDevices:
        """Return the device of a pod."""
        id = f"{self.profile.device}-of-{pod}"
        return pb.ContainerDevices(resource_name=self.profile.resource, device_ids=[id])


def _event(action: int, pod: pb.PodResources) -> Event:
    uid = f"uid-of-{pod.namespace}-{pod.name}"
    return Event(action=action, uid=uid, pod_resources=[pod])  # type: ignore[arg-type]  # a number
