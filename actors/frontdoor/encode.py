"""From the plane's messages to the wire of pod resources. Everything is sorted, so equal states are equal bytes."""

from collections.abc import Iterable

from actors.frontdoor.types import Action
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, Device, PodAllocation
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1

SHOWN = ("sidecar", "app")
"""Kinds of containers that are listed, in this order; an init container's devices live on in these."""


def pod(allocation: PodAllocation) -> v1.PodResources:
    shown = (container for kind in SHOWN for container in allocation.containers if container.kind == kind)
    return v1.PodResources(
        name=allocation.name, namespace=allocation.namespace, containers=[_container(item) for item in shown]
    )


def _container(container: ContainerAllocation) -> v1.ContainerResources:
    return v1.ContainerResources(name=container.name, devices=devices(container.devices))


def devices(items: Iterable[AllocatedDevice | Device]) -> list[v1.ContainerDevices]:
    """One entry per device and NUMA node; a device without topology has one entry without topology."""
    ordered = sorted(items, key=lambda item: (item.resource, item.id, item.numa))
    return [entry for item in ordered for entry in _device(item)]


def _device(item: AllocatedDevice | Device) -> list[v1.ContainerDevices]:
    if not item.numa:
        return [v1.ContainerDevices(resource_name=item.resource, device_ids=[item.id])]
    return [
        v1.ContainerDevices(
            resource_name=item.resource, device_ids=[item.id], topology=v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)])
        )
        for node in item.numa
    ]


def pod_event(action: Action, allocation: PodAllocation) -> bytes:
    """State after the change: a deleted pod has its name and nothing else."""
    after = pod(allocation)
    if action is Action.DELETED:
        after = v1.PodResources(name=allocation.name, namespace=allocation.namespace)
    message = v1.ListAndWatchPodResourcesResponse(action=action.name, uid=allocation.uid, pod_resources=[after])
    return message.SerializeToString(deterministic=True)


def allocatable_event(action: Action, items: Iterable[Device]) -> bytes:
    message = v1.ListAndWatchAllocatableResourcesResponse(action=action.name, devices=devices(items))
    return message.SerializeToString(deterministic=True)


def bookmark() -> bytes:
    """The same bytes for both watches: an action and nothing else."""
    return v1.ListAndWatchPodResourcesResponse(action=Action.BOOKMARK.name).SerializeToString()


def sequence(position: int) -> bytes:
    """Field 1000 of both watches' messages, to be appended to one: messages concatenate."""
    return v1.ListAndWatchPodResourcesResponse(sequence=position).SerializeToString()


def old_pod(allocation: PodAllocation) -> v1alpha1.PodResources:
    """v1alpha1 knows app containers and device ids only."""
    apps = (container for container in allocation.containers if container.kind == "app")
    return v1alpha1.PodResources(
        name=allocation.name,
        namespace=allocation.namespace,
        containers=[v1alpha1.ContainerResources(name=app.name, devices=_old_devices(app.devices)) for app in apps],
    )


def _old_devices(items: Iterable[AllocatedDevice]) -> list[v1alpha1.ContainerDevices]:
    ids: dict[str, list[str]] = {}
    for item in items:
        ids.setdefault(item.resource, []).append(item.id)
    return [v1alpha1.ContainerDevices(resource_name=name, device_ids=sorted(ids[name])) for name in sorted(ids)]
