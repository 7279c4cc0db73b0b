"""An admitted pod: the plan, its ledger record, and the grants podworker starts the containers with."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from actors.devices.cpu.pool import pod_need
from actors.devices.machine.placer import CPUS, NODES, InitResources, Placer
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.plan import DevicePlan, ids_by_resource, planned_allocation, steps
from protocols.lifecycle.devices.types import PodRecord
from protocols.messages.devices import (
    AdmitPod,
    AdmittedPod,
    ContainerAllocation,
    ContainerGrant,
    GrantedDevice,
    GrantedMount,
    PodAllocation,
)
from protocols.node.cpulist import format_list
from protocols.process.texts import cut, listed
from protocols.wire import deviceplugin_v1beta1_pb2 as pb

V = TypeVar("V")
NAMED, MAX_KEY = 8, 256
"""Keys that a conflict names, and their characters."""


class PodPlan(DevicePlan):
    """The plan of a node with exclusive CPUs and memory."""

    def __init__(self) -> None:
        super().__init__()
        self.init_resources = InitResources()
        """CPUs and memory of init containers, for later containers."""


def pod_steps(pod: AdmitPod) -> dict[str, int]:
    """Return what the pod needs of each resource at its peak."""
    needs: dict[str, list[tuple[str, int]]] = {}
    for container, resource, count in steps(pod):
        needs.setdefault(resource, []).append((container.kind, count))
    return {resource: pod_need(needs[resource]) for resource in sorted(needs)}


class AllocationBuilder(msgspec.Struct, frozen=True):
    """Builds ledger records with the CPUs and memory of each container."""

    inventory: Inventory
    placer: Placer

    def planned_allocation(self, pod: AdmitPod, plan: PodPlan) -> PodAllocation:
        allocation = planned_allocation(pod, plan, self.inventory)
        placed = tuple(self._placed(pod.uid, container) for container in allocation.containers)
        return msgspec.structs.replace(allocation, containers=placed)

    def named_allocation(self, pod: AdmitPod, known: PodRecord) -> PodAllocation:
        """Return the allocation of `known` with the pod's name and its containers."""
        held = {container.name: container for container in known.allocation.containers}
        containers = (held.get(item.name, ContainerAllocation(item.name)) for item in pod.containers)
        kinds = {item.name: item.kind for item in pod.containers}
        placed = tuple(self._placed(pod.uid, msgspec.structs.replace(c, kind=kinds[c.name])) for c in containers)
        return msgspec.structs.replace(known.allocation, namespace=pod.namespace, name=pod.name, containers=placed)

    def _placed(self, uid: str, container: ContainerAllocation) -> ContainerAllocation:
        placed = self.placer.placed(uid, container.name)
        return msgspec.structs.replace(container, cpus=tuple(sorted(placed.cpus)), memory=placed.memory)


def admitted(record: PodRecord) -> AdmittedPod:
    """Return the reply to an admission, with a grant for every container."""
    grants, warnings = {}, []
    for container in record.allocation.containers:
        merge = GrantMerger()
        for resource, raw in sorted(record.responses.get(container.name, {}).items()):
            merge.add(resource, pb.ContainerAllocateResponse.FromString(raw))
        grants[container.name] = merge.grant(container)
        warnings += [f"container {container.name}: {line}" for line in merge.conflicts]
    return AdmittedPod(grants=grants, warnings=tuple(warnings))


class GrantMerger:
    """Merge the responses for one container, added in the order of resource names.

    The first value of a key wins; another value for it is a conflict.
    """

    def __init__(self) -> None:
        self.conflicts: list[str] = []
        self._envs: dict[str, str] = {}
        self._annotations: dict[str, str] = {}
        self._mounts: dict[str, GrantedMount] = {}
        self._devices: dict[str, GrantedDevice] = {}
        self._names: dict[str, None] = {}

    def add(self, resource: str, answer: pb.ContainerAllocateResponse) -> None:
        self._merge(self._envs, answer.envs, f"environment variable of {resource}")
        self._merge(self._devices, {d.container_path: _device(d) for d in answer.devices}, f"device of {resource}")
        self._merge(self._mounts, {m.container_path: _mount(m) for m in answer.mounts}, f"mount of {resource}")
        self._merge(self._annotations, answer.annotations, f"annotation of {resource}")
        self._names.update(dict.fromkeys(device.name for device in answer.cdi_devices))

    def _merge(self, mine: dict[str, V], more: Mapping[str, V], what: str) -> None:
        different = [key for key, value in sorted(more.items()) if mine.setdefault(key, value) != value]
        if different:
            keys = listed([cut(key, MAX_KEY) for key in different], NAMED)
            self.conflicts.append(f"{what} conflicts with that of another resource, which is used: {keys}")

    def grant(self, container: ContainerAllocation) -> ContainerGrant:
        nodes = sorted({node for block in container.memory for node in block.numa})
        own = {CPUS: tuple(map(str, container.cpus)), NODES: tuple(map(str, nodes))}
        return ContainerGrant(
            envs=self._envs,
            mounts=tuple(self._mounts.values()),
            devices=tuple(self._devices.values()),
            annotations=self._annotations,
            cdi_devices=tuple(self._names),
            cpus=format_list(container.cpus),
            mems=",".join(map(str, nodes)),
            held={name: tuple(ids) for name, ids in (ids_by_resource(container) | own).items() if ids},
        )


def _mount(mount: pb.Mount) -> GrantedMount:
    return GrantedMount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)


def _device(device: pb.DeviceSpec) -> GrantedDevice:
    return GrantedDevice(
        container_path=device.container_path, host_path=device.host_path, permissions=device.permissions
    )
