"""What the plugins' answers mean for a container: merged over its resources in name order, the first one wins."""

from collections.abc import Mapping

import msgspec

from actors.devices.types import PodRecord
from protocols.cpulist import format_list
from protocols.messages.devices import AdmittedPod, ContainerAllocation, ContainerGrant, GrantedDevice, GrantedMount
from protocols.wire import deviceplugin_v1beta1_pb2 as pb


def admitted(record: PodRecord) -> AdmittedPod:
    """The reply to an admission; every container of the pod has a grant."""
    containers = record.allocation.containers
    return AdmittedPod(grants={item.name: _grant(item, record.responses.get(item.name, {})) for item in containers})


def _grant(container: ContainerAllocation, responses: Mapping[str, bytes]) -> ContainerGrant:
    nodes = {node for block in container.memory for node in block.numa}
    return msgspec.structs.replace(
        merge(responses), cpus=format_list(container.cpus), mems=",".join(map(str, sorted(nodes)))
    )


def merge(responses: Mapping[str, bytes]) -> ContainerGrant:
    answers = [pb.ContainerAllocateResponse.FromString(raw) for _, raw in sorted(responses.items())]
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, GrantedMount] = {}
    devices: dict[str, GrantedDevice] = {}
    names: dict[str, None] = {}
    for answer in answers:
        envs = {**answer.envs, **envs}
        annotations = {**answer.annotations, **annotations}
        for mount in answer.mounts:
            mounts.setdefault(mount.container_path, _mount(mount))
        for device in answer.devices:
            devices.setdefault(device.container_path, _device(device))
        names.update(dict.fromkeys(device.name for device in answer.cdi_devices))
    return ContainerGrant(
        envs=envs,
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations=annotations,
        cdi_devices=tuple(names),
    )


def _mount(mount: pb.Mount) -> GrantedMount:
    return GrantedMount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)


def _device(device: pb.DeviceSpec) -> GrantedDevice:
    return GrantedDevice(
        container_path=device.container_path, host_path=device.host_path, permissions=device.permissions
    )
