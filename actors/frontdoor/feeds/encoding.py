"""Encode allocations as messages of the pod resources API.

Everything is sorted, so equal states are equal bytes. A protobuf message is the concatenation of its fields, so a part
that is encoded already is wrapped with `field` and never encoded again.
"""

from collections.abc import Iterable
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

from protocols.messages.devices import (
    AllocatedDevice,
    AllocatedMemory,
    ClaimDevice,
    ContainerAllocation,
    Device,
    PodAllocation,
)
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire.protobuf import delimited

ClaimName = tuple[str, str]
"""Namespace and name."""

LISTED_KINDS = ("sidecar", "app")
"""Kinds of containers that kubelet lists, in this order."""

LIST_POD_FIELD, EVENT_POD_FIELD, GET_POD_FIELD = 1, 3, 1
"""Number of the PodResources field in the response of List, of a watch, and of Get."""


class Action(IntEnum):
    """Action of a watch message, with its number on the wire."""

    ADDED = 0
    DELETED = 1
    UPDATED = 2
    BOOKMARK = 3


def field(number: int, payload: bytes) -> bytes:
    """Return a field that holds a message, a string or bytes."""
    return delimited(number, payload)


def pod(allocation: PodAllocation, *, inits: bool = False) -> v1.PodResources:
    """Return the pod as kubelet lists it; with `inits`, led by the plain init containers that hold anything."""
    leading = filter(_is_holding_init, allocation.containers) if inits else ()
    listed = (container for kind in LISTED_KINDS for container in allocation.containers if container.kind == kind)
    claims = {name: _claim(name, devices) for name, devices in _devices_by_claim(allocation).items()}
    return v1.PodResources(
        name=allocation.name,
        namespace=allocation.namespace,
        containers=[_container(item, claims) for item in (*leading, *listed)],
        cpu_ids=sorted(allocation.cpus),
        memory=memory(allocation.memory),
    )


def pod_bytes(allocation: PodAllocation, *, inits: bool = False) -> bytes:
    """Encode a pod for List; with `inits`, its plain init containers too."""
    return pod(allocation, inits=inits).SerializeToString(deterministic=True)


def has_holding_inits(allocation: PodAllocation) -> bool:
    """Return True if `inits` makes a difference for this pod."""
    return any(map(_is_holding_init, allocation.containers))


def _is_holding_init(container: ContainerAllocation) -> bool:
    return container.kind == "init" and bool(
        container.devices or container.cpus or container.memory or container.claims
    )


def _devices_by_claim(allocation: PodAllocation) -> dict[ClaimName, list[ClaimDevice]]:
    # As in kubelet, a container shows all devices of its claims, also those of requests that it does not name.
    by_claim: dict[ClaimName, dict[ClaimDevice, None]] = {}
    for container in allocation.containers:
        for claim in container.claims:
            by_claim.setdefault((claim.namespace, claim.name), {}).update(dict.fromkeys(claim.devices))
    order = attrgetter("driver", "pool", "device", "share_id")
    return {name: sorted(devices, key=order) for name, devices in by_claim.items()}


def _container(container: ContainerAllocation, by_claim: dict[ClaimName, v1.DynamicResource]) -> v1.ContainerResources:
    """Return one container; each claim of the pod is built once, whatever the number of containers that name it."""
    claims = sorted({(claim.namespace, claim.name) for claim in container.claims})
    return v1.ContainerResources(
        name=container.name,
        devices=devices(container.devices),
        cpu_ids=sorted(container.cpus),
        memory=memory(container.memory),
        dynamic_resources=[by_claim[name] for name in claims],
    )


def devices(items: Iterable[AllocatedDevice | Device]) -> list[v1.ContainerDevices]:
    """Return one entry per device and NUMA node; a device without topology has one entry without topology."""
    ordered = sorted(items, key=lambda item: (item.resource, item.id, item.numa))
    return [entry for item in ordered for entry in _device(item)]


def _device(item: AllocatedDevice | Device) -> list[v1.ContainerDevices]:
    if not item.numa:
        return [v1.ContainerDevices(resource_name=item.resource, device_ids=[item.id])]
    return [
        v1.ContainerDevices(resource_name=item.resource, device_ids=[item.id], topology=_topology((node,)))
        for node in item.numa
    ]


def memory(blocks: Iterable[AllocatedMemory]) -> list[v1.ContainerMemory]:
    """Return one entry per block, with all its NUMA nodes."""
    ordered = sorted(blocks, key=lambda block: (block.type, block.numa))
    return [
        v1.ContainerMemory(memory_type=block.type, size=block.size, topology=_topology(block.numa)) for block in ordered
    ]


def _topology(nodes: tuple[int, ...]) -> v1.TopologyInfo | None:
    return v1.TopologyInfo(nodes=[v1.NUMANode(ID=node) for node in nodes]) if nodes else None


def _claim(name: ClaimName, devices: Iterable[ClaimDevice]) -> v1.DynamicResource:
    return v1.DynamicResource(
        claim_namespace=name[0], claim_name=name[1], claim_resources=[_claim_resource(device) for device in devices]
    )


def _claim_resource(device: ClaimDevice) -> v1.ClaimResource:
    return v1.ClaimResource(
        cdi_devices=[v1.CDIDevice(name=name) for name in device.cdi_devices],
        driver_name=device.driver,
        pool_name=device.pool,
        device_name=device.device,
        share_id=device.share_id or None,
    )


def pod_event(action: Action, allocation: PodAllocation, encoded: bytes) -> bytes:
    """Return a watch message with the state after the change, `encoded`. A deleted pod has only its name."""
    after = _pod_name(allocation) if action is Action.DELETED else encoded
    head = v1.ListAndWatchPodResourcesResponse(action=action.name, uid=allocation.uid)
    return head.SerializeToString(deterministic=True) + field(EVENT_POD_FIELD, after)


def _pod_name(allocation: PodAllocation) -> bytes:
    return v1.PodResources(name=allocation.name, namespace=allocation.namespace).SerializeToString(deterministic=True)


def pod_without_resources(namespace: str, name: str, containers: Iterable[str]) -> bytes:
    """Encode a pod that holds nothing, as List returns pods of the node without an allocation."""
    listed = [v1.ContainerResources(name=container) for container in containers]
    return v1.PodResources(name=name, namespace=namespace, containers=listed).SerializeToString(deterministic=True)


def allocatable_event(
    action: Action,
    items: Iterable[Device] = (),
    cpus: Iterable[int] = (),
    blocks: Iterable[AllocatedMemory] = (),
) -> bytes:
    """Encode an event of the watch of allocatable resources."""
    message = v1.ListAndWatchAllocatableResourcesResponse(
        action=action.name, devices=devices(items), cpu_ids=sorted(cpus), memory=memory(blocks)
    )
    return message.SerializeToString(deterministic=True)


def bookmark() -> bytes:
    """Return the message that ends a snapshot, the same for both watches."""
    return v1.ListAndWatchPodResourcesResponse(action=Action.BOOKMARK.name).SerializeToString()


def sequence(position: int) -> bytes:
    """Return field 1000 of both watches, to be appended to a message."""
    return v1.ListAndWatchPodResourcesResponse(sequence=position).SerializeToString()


def v1alpha1_pod(allocation: PodAllocation) -> v1alpha1.PodResources:
    """Return the app containers and their device ids, which is all that v1alpha1 has."""
    apps = (container for container in allocation.containers if container.kind == "app")
    return v1alpha1.PodResources(
        name=allocation.name,
        namespace=allocation.namespace,
        containers=[v1alpha1.ContainerResources(name=app.name, devices=_v1alpha1_devices(app.devices)) for app in apps],
    )


def v1alpha1_pod_without_resources(namespace: str, name: str, containers: Iterable[str]) -> v1alpha1.PodResources:
    """Return a pod that holds nothing as a message of v1alpha1, which is not encoded beforehand."""
    listed = [v1alpha1.ContainerResources(name=container) for container in containers]
    return v1alpha1.PodResources(name=name, namespace=namespace, containers=listed)


class V1alpha1Field(NamedTuple):
    """A pod in the response of v1alpha1's List, with what the response is sorted by."""

    namespace: str
    name: str
    encoded: bytes


def v1alpha1_field(pod: v1alpha1.PodResources) -> V1alpha1Field:
    """Encode a pod once for every response that lists it."""
    return V1alpha1Field(pod.namespace, pod.name, field(LIST_POD_FIELD, pod.SerializeToString(deterministic=True)))


def _v1alpha1_devices(items: Iterable[AllocatedDevice]) -> list[v1alpha1.ContainerDevices]:
    ids: dict[str, list[str]] = {}
    for item in items:
        ids.setdefault(item.resource, []).append(item.id)
    return [v1alpha1.ContainerDevices(resource_name=name, device_ids=sorted(ids[name])) for name in sorted(ids)]
