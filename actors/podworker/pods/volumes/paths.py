"""Paths of volumes on this host."""

import os
from collections.abc import Mapping
from pathlib import Path

from actors.podworker.model.errors import ContainerConfigInvalid
from actors.podworker.pods.environment.variables import ExpansionBudget, expand
from actors.podworker.pods.volumes.payload import EMPTY_DIR, HOST_PATH, IMAGE, SUPPORTED, WRITTEN, kind_of, volumes_of
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodSpec

PODS, MEMORY = "pods", "memory"
"""Directories of pods below ROOT; the second is a tmpfs, if one can be mounted."""
IN_MEMORY = ("secret", "downwardAPI", "projected")
"""Kinds whose files are there: those that kubelet has in memory."""
MAX_SUB_PATH = 64 << 10
"""Characters of an expanded subPathExpr; the kernel takes paths of 4096 bytes."""
FOLDERS = {
    EMPTY_DIR: "empty-dir",
    "configMap": "config-map",
    "secret": "secret",
    "downwardAPI": "downward-api",
    "projected": "projected",
}


def pod_directory(root: Path, uid: str) -> Path:
    """Return the directory of the pod's volumes and files below ROOT."""
    return root / PODS / uid


def memory_directory(root: Path, uid: str) -> Path:
    """Return the directory of the pod's volumes on the tmpfs of all pods."""
    return root / MEMORY / uid


def is_in_memory(path: Path, root: Path) -> bool:
    """Return True for the path of a volume on that tmpfs."""
    return path.is_relative_to(root / MEMORY)


def pod_log_directory(base: Path, spec: PodSpec) -> Path:
    """Return the directory of the pod's logs, under kubelet's name for it."""
    return base / f"{spec.namespace}_{spec.name}_{spec.uid}"


def removable(directory: Path, base: Path) -> bool:
    """Return False where a name that the runtime reported leads elsewhere than to an entry of `base`."""
    return directory.parent == base and directory.name not in ("", ".", "..")


class VolumePaths:
    """Volumes of one pod by name: a pod may have tens of thousands, and as many mounts."""

    def __init__(self, spec: PodSpec, root: Path) -> None:
        self._spec, self._root = spec, root
        self._volumes = {str(volume.get("name") or ""): volume for volume in volumes_of(spec)}

    def path(self, name: str) -> Path:
        """Return the volume's path. Raises ContainerConfigInvalid for unknown volumes and unsupported kinds."""
        volume = self._volumes.get(name)
        if volume is None:
            raise ContainerConfigInvalid(f"volume {name!r} is mounted but not part of the pod")
        return volume_path(self._spec, volume, self._root)

    def is_image(self, name: str) -> bool:
        """Return True for a volume that the runtime mounts: it has no path here."""
        return name in self._volumes and kind_of(self._volumes[name]) == IMAGE

    def is_written(self, name: str) -> bool:
        return name in self._volumes and kind_of(self._volumes[name]) in WRITTEN


def volume_path(spec: PodSpec, volume: views.Volume, root: Path) -> Path:
    """Return the volume's path. Raises ContainerConfigInvalid for unsupported kinds.

    One that is on the disk from a time without tmpfs stays there until the pod ends: its containers have it mounted.
    """
    name, kind = str(volume.get("name") or ""), kind_of(volume)
    if "/" in name or name in ("", ".", ".."):
        raise ContainerConfigInvalid(f"volume {name!r}: that is no name of a volume")
    if kind == HOST_PATH:
        return Path(volume[HOST_PATH].get("path") or "")
    if kind not in SUPPORTED:
        supported = ", ".join(SUPPORTED)
        raise ContainerConfigInvalid(f"volume {name!r} is a {kind}, which is not supported yet; use {supported}")
    on_disk = pod_directory(root, spec.uid) / "volumes" / FOLDERS[kind] / name
    if kind in IN_MEMORY and os.path.ismount(root / MEMORY) and not on_disk.exists():
        return memory_directory(root, spec.uid) / FOLDERS[kind] / name
    return on_disk


def sub_path(mount: views.VolumeMount, variables: Mapping[str, str]) -> str:
    """Return the path within the volume; empty for all of it. Raises ContainerConfigInvalid."""
    path = str(mount.get("subPath") or "")
    if mount.get("subPathExpr"):
        path = expand(str(mount["subPathExpr"]), variables, ExpansionBudget(MAX_SUB_PATH))
    if path.startswith("/") or ".." in path.split("/"):
        raise ContainerConfigInvalid(f"subPath {path!r} of volume {mount.get('name')!r} leads out of the volume")
    return path
