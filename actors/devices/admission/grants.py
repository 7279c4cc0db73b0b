"""What the plugins' answers mean for a container: merged over its resources in name order, the first one wins. Pure."""

from collections.abc import Mapping
from typing import TypeVar

from actors.devices.admission.refusals import ids_by_resource
from actors.devices.machine.types import CPUS, NODES
from actors.devices.types import PodRecord
from protocols.cpulist import format_list
from protocols.messages.devices import AdmittedPod, ContainerAllocation, ContainerGrant, GrantedDevice, GrantedMount
from protocols.wire import deviceplugin_v1beta1_pb2 as pb

V = TypeVar("V")


def admitted(record: PodRecord) -> AdmittedPod:
    """The reply to an admission; every container of the pod has a grant."""
    grants, warnings = {}, []
    for container in record.allocation.containers:
        merge = Merge()
        for resource, raw in sorted(record.responses.get(container.name, {}).items()):
            merge.add(resource, pb.ContainerAllocateResponse.FromString(raw))
        grants[container.name] = merge.grant(container)
        warnings += [f"container {container.name}: {line}" for line in merge.conflicts]
    return AdmittedPod(grants=grants, warnings=tuple(warnings))


class Merge:
    """One container's answers, added by resource name. A conflict is the same key with another value."""

    def __init__(self) -> None:
        self.conflicts: list[str] = []
        self._envs: dict[str, str] = {}
        self._annotations: dict[str, str] = {}
        self._mounts: dict[str, GrantedMount] = {}
        self._devices: dict[str, GrantedDevice] = {}
        self._names: dict[str, None] = {}

    def add(self, resource: str, answer: pb.ContainerAllocateResponse) -> None:
        self._into(self._envs, answer.envs, f"environment variable of {resource}")
        self._into(self._devices, {d.container_path: _device(d) for d in answer.devices}, f"device of {resource}")
        self._into(self._mounts, {m.container_path: _mount(m) for m in answer.mounts}, f"mount of {resource}")
        self._into(self._annotations, answer.annotations, f"annotation of {resource}")
        self._names.update(dict.fromkeys(device.name for device in answer.cdi_devices))

    def _into(self, mine: dict[str, V], more: Mapping[str, V], what: str) -> None:
        for key, value in sorted(more.items()):
            if mine.setdefault(key, value) != value:
                self.conflicts.append(f"{what} conflicts with that of another resource, which is used: {key}")

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
