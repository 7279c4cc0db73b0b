"""Where a pod's volumes lie on this host. Pure."""

from collections.abc import Mapping
from pathlib import Path

from actors.podworker.environment.expand import expand
from actors.podworker.errors import ContainerConfigInvalid
from actors.podworker.types import Object, PodSpec
from actors.podworker.volumes.payload import kind_of, volumes_of
from actors.podworker.volumes.types import EMPTY_DIR, HOST_PATH, SUPPORTED, WRITTEN

PODS = "pods"
FOLDERS = {
    EMPTY_DIR: "empty-dir",
    "configMap": "config-map",
    "secret": "secret",
    "downwardAPI": "downward-api",
    "projected": "projected",
}


def pod_directory(root: Path, uid: str) -> Path:
    return root / PODS / uid


def removable(directory: Path, base: Path) -> bool:
    """Return False where a name that the runtime reported leads elsewhere than to an entry of `base`."""
    return directory.parent == base and directory.name not in ("", ".", "..")


def volume_path(spec: PodSpec, name: str, root: Path) -> Path:
    """Raises ContainerConfigInvalid when the pod has no such volume, or one of a kind that is not supported."""
    volume = next((v for v in volumes_of(spec) if v.get("name") == name), None)
    if volume is None:
        raise ContainerConfigInvalid(f"volume {name!r} is mounted but not part of the pod")
    if "/" in name or name in ("", ".", ".."):
        raise ContainerConfigInvalid(f"volume {name!r}: that is no name of a volume")
    kind = kind_of(volume)
    if kind == HOST_PATH:
        return Path(volume[HOST_PATH].get("path") or "")
    if kind not in SUPPORTED:
        supported = ", ".join(SUPPORTED)
        raise ContainerConfigInvalid(f"volume {name!r} is a {kind}, which is not supported yet; use {supported}")
    return pod_directory(root, spec.uid) / "volumes" / FOLDERS[kind] / name


def is_written(spec: PodSpec, name: str) -> bool:
    return any(v.get("name") == name and kind_of(v) in WRITTEN for v in volumes_of(spec))


def sub_path(mount: Object, variables: Mapping[str, str]) -> str:
    """The part of the volume that is mounted; empty: all of it. Raises ContainerConfigInvalid."""
    found = str(mount.get("subPath") or "")
    if mount.get("subPathExpr"):
        found = expand(str(mount["subPathExpr"]), variables)
    if found.startswith("/") or ".." in found.split("/"):
        raise ContainerConfigInvalid(f"subPath {found!r} of volume {mount.get('name')!r} leads out of the volume")
    return found
