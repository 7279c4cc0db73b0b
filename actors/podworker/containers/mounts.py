"""Mounts of a container: the volumes it names, its termination log, and what device plugins grant. Pure: paths only."""

from collections.abc import Mapping
from pathlib import Path

from actors.podworker.containers.hosts import PLACE, hosts_file
from actors.podworker.containers.messages import message_file, message_path
from actors.podworker.types import ContainerSpec, Object, PodSpec
from actors.podworker.volumes.paths import VolumePaths, sub_path
from protocols.messages.devices import GrantedMount
from protocols.wire import cri_pb2

_PROPAGATION = {
    "HostToContainer": cri_pb2.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri_pb2.PROPAGATION_BIDIRECTIONAL,
}


def container_mounts(
    spec: PodSpec,
    container: ContainerSpec,
    root: Path,
    granted: tuple[GrantedMount, ...],
    variables: Mapping[str, str],
    attempt: int,
    hosts: bool = False,
) -> "list[cri_pb2.Mount]":
    """`hosts`: the pod has its own /etc/hosts. Raises ContainerConfigInvalid."""
    volumes = VolumePaths(spec, root)
    mounts = [_mount(m, volumes, variables) for m in container.raw.get("volumeMounts") or ()]
    extra = [
        cri_pb2.Mount(container_path=g.container_path, host_path=g.host_path, readonly=g.read_only) for g in granted
    ]
    taken = {m.container_path for m in mounts + extra}
    named = _hosts(spec, root, taken) if hosts else []
    return mounts + extra + named + _message_mounts(spec, container, root, attempt, taken)


def _hosts(spec: PodSpec, root: Path, taken: set[str]) -> "list[cri_pb2.Mount]":
    if PLACE in taken:
        return []
    return [cri_pb2.Mount(container_path=PLACE, host_path=str(hosts_file(root, spec.uid)))]


def _message_mounts(
    spec: PodSpec, container: ContainerSpec, root: Path, attempt: int, taken: set[str]
) -> "list[cri_pb2.Mount]":
    """The file its last words go to, unless something else is mounted there."""
    path = message_path(container)
    if not path.startswith("/") or path in taken:
        return []
    return [cri_pb2.Mount(container_path=path, host_path=str(message_file(root, spec.uid, container.name, attempt)))]


def _mount(mount: Object, volumes: VolumePaths, variables: Mapping[str, str]) -> "cri_pb2.Mount":
    name = str(mount.get("name") or "")
    return cri_pb2.Mount(
        container_path=mount.get("mountPath", ""),
        host_path=str(volumes.path(name) / sub_path(mount, variables)),
        readonly=bool(mount.get("readOnly")) or volumes.is_written(name),
        propagation=_PROPAGATION.get(mount.get("mountPropagation") or "", cri_pb2.PROPAGATION_PRIVATE),
    )
