"""From the plane's messages to the wire of pod resources. Everything is sorted, so equal states are equal bytes."""

from collections.abc import Iterable
from operator import attrgetter

from actors.frontdoor.framing import field
from actors.frontdoor.types import Action
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

ClaimName = tuple[str, str]
"""Namespace and name."""

SHOWN = ("sidecar", "app")
"""Kinds of containers that are listed, in this order; an init container's devices live on in these."""

LISTED_POD, EVENT_POD, GOT_POD = 1, 3, 1
"""Numbers of the PodResources field in List's reply, in a watch's message, in Get's reply."""


def pod(allocation: PodAllocation) -> v1.PodResources:
    shown = (container for kind in SHOWN for container in allocation.containers if container.kind == kind)
    whole = _whole_claims(allocation)
    return v1.PodResources(
        name=allocation.name,
        namespace=allocation.namespace,
        containers=[_container(item, whole) for item in shown],
        cpu_ids=sorted(allocation.cpus),
        memory=memory(allocation.memory),
    )


def pod_bytes(allocation: PodAllocation) -> bytes:
    return pod(allocation).SerializeToString(deterministic=True)


def _whole_claims(allocation: PodAllocation) -> dict[ClaimName, list[ClaimDevice]]:
    """All devices of each claim the pod's containers have, whichever request a container names: as kubelet does."""
    whole: dict[ClaimName, dict[ClaimDevice, None]] = {}
    for container in allocation.containers:
        for claim in container.claims:
            whole.setdefault((claim.namespace, claim.name), {}).update(dict.fromkeys(claim.devices))
    order = attrgetter("driver", "pool", "device", "share_id")
    return {name: sorted(devices, key=order) for name, devices in whole.items()}


def _container(container: ContainerAllocation, whole: dict[ClaimName, list[ClaimDevice]]) -> v1.ContainerResources:
    claims = sorted({(claim.namespace, claim.name) for claim in container.claims})
    return v1.ContainerResources(
        name=container.name,
        devices=devices(container.devices),
        cpu_ids=sorted(container.cpus),
        memory=memory(container.memory),
        dynamic_resources=[_claim(name, whole[name]) for name in claims],
    )


def devices(items: Iterable[AllocatedDevice | Device]) -> list[v1.ContainerDevices]:
    """One entry per device and NUMA node; a device without topology has one entry without topology."""
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
    """A block on several NUMA nodes is one entry with all of them."""
    ordered = sorted(blocks, key=lambda block: (block.type, block.numa))
    return [
        v1.ContainerMemory(memory_type=block.type, size=block.size, topology=_topology(block.numa)) for block in ordered
    ]


def _topology(nodes: tuple[int, ...]) -> v1.TopologyInfo | None:
    return v1.TopologyInfo(nodes=[v1.NUMANode(ID=node) for node in nodes]) if nodes else None


def _claim(name: ClaimName, devices: Iterable[ClaimDevice]) -> v1.DynamicResource:
    return v1.DynamicResource(
        claim_namespace=name[0], claim_name=name[1], claim_resources=[_claimed(device) for device in devices]
    )


def _claimed(device: ClaimDevice) -> v1.ClaimResource:
    """The CDI devices of this device alone; a share id only where there is one."""
    return v1.ClaimResource(
        cdi_devices=[v1.CDIDevice(name=name) for name in device.cdi_devices],
        driver_name=device.driver,
        pool_name=device.pool,
        device_name=device.device,
        share_id=device.share_id or None,
    )


def pod_event(action: Action, allocation: PodAllocation, encoded: bytes) -> bytes:
    """State after the change, `encoded`; a deleted pod has its name and nothing else."""
    after = bare(allocation) if action is Action.DELETED else encoded
    head = v1.ListAndWatchPodResourcesResponse(action=action.name, uid=allocation.uid)
    return head.SerializeToString(deterministic=True) + field(EVENT_POD, after)


def bare(allocation: PodAllocation) -> bytes:
    return v1.PodResources(name=allocation.name, namespace=allocation.namespace).SerializeToString(deterministic=True)


def bare_pod(namespace: str, name: str, containers: Iterable[str]) -> bytes:
    """A pod whose containers hold nothing."""
    shown = [v1.ContainerResources(name=container) for container in containers]
    return v1.PodResources(name=name, namespace=namespace, containers=shown).SerializeToString(deterministic=True)


def allocatable_event(
    action: Action,
    items: Iterable[Device] = (),
    cpus: Iterable[int] = (),
    blocks: Iterable[AllocatedMemory] = (),
) -> bytes:
    message = v1.ListAndWatchAllocatableResourcesResponse(
        action=action.name, devices=devices(items), cpu_ids=sorted(cpus), memory=memory(blocks)
    )
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


def old_bare(namespace: str, name: str, containers: Iterable[str]) -> v1alpha1.PodResources:
    """A pod that holds nothing."""
    bare = [v1alpha1.ContainerResources(name=container) for container in containers]
    return v1alpha1.PodResources(name=name, namespace=namespace, containers=bare)


def _old_devices(items: Iterable[AllocatedDevice]) -> list[v1alpha1.ContainerDevices]:
    ids: dict[str, list[str]] = {}
    for item in items:
        ids.setdefault(item.resource, []).append(item.id)
    return [v1alpha1.ContainerDevices(resource_name=name, device_ids=sorted(ids[name])) for name in sorted(ids)]
