"""From the wire of pod resources to the plane's words."""

from collections.abc import Iterable

from protocols.messages.devices import (
    AllocatedDevice,
    AllocatedMemory,
    ClaimDevice,
    ContainerAllocation,
    Device,
    Machine,
    PodAllocation,
    PreparedClaim,
)
from protocols.wire import podresources_v1_pb2 as v1


def pod(shown: v1.PodResources, uid: str) -> PodAllocation:
    """Convert a pod; the list has sidecars and app containers, in this order, without their kinds."""
    return PodAllocation(
        uid=uid,
        namespace=shown.namespace,
        name=shown.name,
        containers=tuple(_container(item) for item in shown.containers),
        cpus=tuple(sorted(shown.cpu_ids)),
        memory=memory(shown.memory),
    )


def _container(shown: v1.ContainerResources) -> ContainerAllocation:
    return ContainerAllocation(
        name=shown.name,
        devices=tuple(
            AllocatedDevice(resource, id, numa) for (resource, id), numa in sorted(merged(shown.devices).items())
        ),
        cpus=tuple(sorted(shown.cpu_ids)),
        memory=memory(shown.memory),
        claims=tuple(_claim(item) for item in shown.dynamic_resources),
    )


def merged(entries: Iterable[v1.ContainerDevices]) -> dict[tuple[str, str], tuple[int, ...]]:
    """NUMA nodes by resource and id: a device on several nodes comes as several entries."""
    nodes: dict[tuple[str, str], set[int]] = {}
    for entry in entries:
        for id in entry.device_ids:
            nodes.setdefault((entry.resource_name, id), set()).update(node.ID for node in entry.topology.nodes)
    return {key: tuple(sorted(numa_ids)) for key, numa_ids in nodes.items()}


def memory(entries: Iterable[v1.ContainerMemory]) -> tuple[AllocatedMemory, ...]:
    """Return memory blocks, sorted by NUMA nodes, then type."""
    blocks = (
        AllocatedMemory(item.memory_type, item.size, tuple(sorted(node.ID for node in item.topology.nodes)))
        for item in entries
    )
    return tuple(sorted(blocks, key=lambda block: (block.numa, block.type)))


def _claim(shown: v1.DynamicResource) -> PreparedClaim:
    devices = tuple(_claimed(item) for item in shown.claim_resources)
    return PreparedClaim(shown.claim_namespace, shown.claim_name, "", devices)


def _claimed(shown: v1.ClaimResource) -> ClaimDevice:
    cdi = tuple(item.name for item in shown.cdi_devices)
    return ClaimDevice(shown.driver_name, shown.pool_name, shown.device_name, cdi, shown.share_id)


def allocatable(shown: v1.AllocatableResourcesResponse) -> dict[str, Device]:
    """Return devices by the key that they have in the stream."""
    return {f"{resource} {id}": Device(resource, id, numa) for (resource, id), numa in merged(shown.devices).items()}


def machine(shown: v1.AllocatableResourcesResponse) -> Machine:
    """Return CPUs and memory of GetAllocatableResources."""
    return Machine(tuple(sorted(shown.cpu_ids)), memory(shown.memory))
