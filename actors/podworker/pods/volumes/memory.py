"""Volumes in memory: a tmpfs for each emptyDir of medium Memory, one for the secrets of all pods. Blocks.

Files of secret, projected and downwardAPI volumes are in memory, as with kubelet, so that no key or token reaches the
disk. kubelet mounts a tmpfs for each volume. Here one is mounted for the node, on which pods have directories: mounts
of pods are copied to and removed from the mount namespace of every container.

The mount is its own record: it outlives this process, and `nodeplane down` removes it. Where it cannot be made, or
the runtime does not see it, the volumes are on the disk.
"""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from actors.podworker.model.errors import VolumeNotReady
from actors.podworker.pods.volumes.paths import MEMORY
from actors.podworker.pods.volumes.payload import Payload
from protocols.kinds import views
from protocols.lifecycle.pods.resources import milli
from protocols.lifecycle.pods.types import PodSpec
from protocols.process import linux
from protocols.process.mountinfo import mounts_of

MEDIUM = "Memory"
MACHINE_SHARE, POD_SHARE = 4, 8
"""The tmpfs of all pods takes a quarter of the machine's memory, and one pod an eighth of that."""
RESERVE, SMALL = 4, 64 << 10
"""Its last quarter is for volumes of at most so many bytes, so that tokens can be renewed."""
LEAST = 16 << 20
PAGE = 4096
INODES = 2
"""Inodes for each page: a file has a link. The kernel takes up to 1 KiB for one, beside the size."""
CONNECT_S = 1.0


def mount_shared(root: Path, machine: int, endpoint: str) -> str:
    """Mount the tmpfs of all pods, unless it is mounted. Returns why it is not; empty if it is.

    `machine`: bytes of memory; `endpoint`: socket of the runtime, which must see the mount to pass it to containers.
    """
    place = root / MEMORY
    found = os.path.ismount(place)
    try:
        if not found:
            place.mkdir(mode=0o700, exist_ok=True)
            _mount_unswapped(place, max(machine // MACHINE_SHARE, LEAST))
        if _is_seen(place, endpoint, default=found):
            return ""
        linux.detach(place)
    except OSError as error:
        return f"no tmpfs can be mounted at {place}: {os.strerror(error.errno or 0).lower()}"
    return f"the container runtime does not see a mount at {place}"


def _mount_unswapped(place: Path, size: int) -> None:
    options = f"mode=0700,size={size},nr_inodes={INODES * size // PAGE}"
    try:
        linux.mount("tmpfs", place, linux.NOSUID | linux.NODEV, "tmpfs", f"{options},noswap")
    except OSError:  # Linux before 6.4, and user namespaces
        linux.mount("tmpfs", place, linux.NOSUID | linux.NODEV, "tmpfs", options)


def _is_seen(place: Path, endpoint: str, default: bool) -> bool:
    """Return True if the mount is in the runtime's namespace, and `default` if that cannot be known.

    A runtime in a namespace of its own makes an empty directory instead, and its containers lack their secrets.
    """
    try:
        return str(place.resolve()) in {mounted.point for mounted in mounts_of(f"/proc/{_listener(endpoint)}")}
    except OSError:
        return default


def _listener(endpoint: str) -> int:
    """Return the pid of the process that listens there; 0 for one of another PID namespace."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(CONNECT_S)
        connection.connect(endpoint.removeprefix("unix://"))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def footprint(files: Payload) -> int:
    """Return the bytes that files take on a tmpfs: whole pages, and one for each name on the way to a file. Pure."""
    return sum(PAGE * (1 + path.count("/") - (-len(file.data) // PAGE)) for path, file in files.items())


class PodShare:
    """Footprints of one pod's volumes on the tmpfs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sizes: dict[Path, int] = {}
        self._total = 0

    def count(self, path: Path, files: Payload) -> Callable[[], None]:
        """Count the files that a volume shall have, and return the check for when they are written."""
        size = footprint(files)
        self._total += size - self._sizes.get(path, 0)
        self._sizes[path] = size
        return partial(check_room, self._root, size, self._total)


def check_room(root: Path, volume: int, pod: int) -> None:
    """Raise VolumeNotReady if there is no room for a volume; `volume` and `pod` are footprints, with the volume."""
    room = os.statvfs(root / MEMORY)
    size, free = (pages * room.f_frsize for pages in (room.f_blocks, min(room.f_bavail, room.f_favail // INODES)))
    if pod > size // POD_SHARE:
        most = size // POD_SHARE >> 20
        raise VolumeNotReady(f"secrets of the pod take more than {most} MiB of memory; project less into them")
    if volume > SMALL and free - volume < size // RESERVE:
        raise VolumeNotReady(f"it takes {volume >> 10} KiB of memory, and secrets of other pods leave too little")


def mount_tmpfs(path: Path, volume: views.Volume, spec: PodSpec, machine: int) -> None:
    """Mount the tmpfs of an emptyDir, unless it is mounted or this process may not mount. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    if os.geteuid() != 0 or os.path.ismount(path):
        return
    options = f"mode=0777,size={tmpfs_size(volume, spec, machine)}"
    with suppress(PermissionError):  # root without CAP_SYS_ADMIN: like another user
        linux.mount("tmpfs", path, linux.NOSUID | linux.NODEV, "tmpfs", options)


def tmpfs_size(volume: views.Volume, spec: PodSpec, machine: int) -> int:
    """Return its size: the smallest of sizeLimit, the pod's memory limits and the machine's memory. Pure."""
    limit = milli((volume.get("emptyDir") or {}).get("sizeLimit")) // 1000
    limits = [milli(((c.raw.get("resources") or {}).get("limits") or {}).get("memory")) // 1000 for c in spec.apps]
    together = sum(limits) if limits and all(limits) else 0
    return min(size for size in (limit, together, machine or 1 << 62) if size)
