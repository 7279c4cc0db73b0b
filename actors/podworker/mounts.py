"""Mounts of a container: emptyDir and hostPath volumes, and what device plugins grant. Pure: paths only."""

from pathlib import Path

from actors.podworker.errors import ContainerConfigInvalid
from actors.podworker.types import ContainerSpec, Object, PodSpec
from protocols.messages.devices import GrantedMount
from protocols.wire import cri_pb2

_SOURCES_THAT_COUNT = ("emptyDir", "hostPath")


def pod_directory(root: Path, uid: str) -> Path:
    return root / "pods" / uid


def volume_paths(spec: PodSpec, container: ContainerSpec, root: Path) -> dict[str, Path]:
    """Host path of each volume the container mounts; raises ContainerConfigInvalid for kinds not supported yet."""
    volumes = {v.get("name", ""): v for v in (spec.raw.get("spec") or {}).get("volumes") or ()}
    names = [m.get("name", "") for m in container.raw.get("volumeMounts") or ()]
    return {name: _path(name, volumes.get(name), spec, root) for name in names}


def empty_directories(spec: PodSpec, root: Path) -> list[Path]:
    """Directories to create before any container of the pod starts."""
    volumes = (spec.raw.get("spec") or {}).get("volumes") or ()
    return [_empty_dir(root, spec.uid, v.get("name", "")) for v in volumes if v.get("emptyDir") is not None]


def container_mounts(
    spec: PodSpec, container: ContainerSpec, root: Path, granted: tuple[GrantedMount, ...]
) -> "list[cri_pb2.Mount]":
    paths = volume_paths(spec, container, root)
    mounts = [_mount(m, paths[m.get("name", "")]) for m in container.raw.get("volumeMounts") or ()]
    extra = [
        cri_pb2.Mount(container_path=g.container_path, host_path=g.host_path, readonly=g.read_only) for g in granted
    ]
    return mounts + extra


def _mount(mount: Object, path: Path) -> "cri_pb2.Mount":
    host = path / mount["subPath"] if mount.get("subPath") else path
    return cri_pb2.Mount(
        container_path=mount.get("mountPath", ""), host_path=str(host), readonly=bool(mount.get("readOnly"))
    )


def _path(name: str, volume: Object | None, spec: PodSpec, root: Path) -> Path:
    if volume is None:
        raise ContainerConfigInvalid(f"volume {name!r} is mounted but not part of the pod")
    if volume.get("emptyDir") is not None:
        return _empty_dir(root, spec.uid, name)
    if volume.get("hostPath"):
        return Path(volume["hostPath"].get("path", ""))
    kind = next((key for key in volume if key != "name"), "volume")
    supported = ", ".join(_SOURCES_THAT_COUNT)
    raise ContainerConfigInvalid(f"volume {name!r} is a {kind}, which is not supported yet; use {supported}")


def _empty_dir(root: Path, uid: str, name: str) -> Path:
    return pod_directory(root, uid) / "volumes" / "empty-dir" / name
