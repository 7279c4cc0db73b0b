"""Mount points inside a volume whose files we write: the runtime mounts it read-only and could not create them there.

As upstream's pkg/volume/util/nested_volumes.go.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from actors.podworker.model.errors import VolumeNotReady
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodSpec

_DIRECTORY = 0o755


def nested_mount_points(spec: PodSpec) -> dict[str, list[str]]:
    """Return by volume the paths below it at which containers mount something else. Pure.

    One pass over the mounts, of which a pod may have tens of thousands.
    """
    found: dict[str, set[str]] = {}
    for container in (*spec.containers, *spec.ephemeral):
        for volume, point in _of_container(container.raw):
            found.setdefault(volume, set()).add(point)
    return {volume: sorted(points) for volume, points in found.items()}


def _of_container(container: views.Container) -> Iterator[tuple[str, str]]:
    mounts = {_path(mount): mount for mount in container.get("volumeMounts") or ()}
    for path in mounts:
        outer = next((parent for parent in path.parents if parent in mounts), None)
        if outer is not None and not (mounts[outer].get("subPath") or mounts[outer].get("subPathExpr")):
            yield str(mounts[outer].get("name") or ""), str(path.relative_to(outer))


def _path(mount: views.VolumeMount) -> PurePosixPath:
    return PurePosixPath(str(mount.get("mountPath") or ""))


def make_mount_points(directory: Path, points: list[str]) -> None:
    """Create the directories. Raises VolumeNotReady where a file of the volume has the name, and OSError."""
    for point in points:
        if ".." in PurePosixPath(point).parts:
            raise VolumeNotReady(f"mount path {point!r} leads out of the volume; write it without ..")
        path = directory
        for part in PurePosixPath(point).parts:
            path = path / part
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise VolumeNotReady(f"{point!r} is mounted where the volume has a file; mount it elsewhere")
            if not path.exists():
                path.mkdir()
                path.chmod(_DIRECTORY)
