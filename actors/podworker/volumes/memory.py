"""emptyDir in memory: a tmpfs of its own where the node may mount one, a directory on disk elsewhere. Blocks."""

import ctypes
import os
from pathlib import Path

from actors.podworker.containers.limits import milli
from actors.podworker.types import Object, PodSpec

MEDIUM = "Memory"
_NOSUID_NODEV = 0x2 | 0x4


def mount(path: Path, volume: Object, spec: PodSpec, machine: int) -> None:
    """Nothing when it is mounted already, or may not be. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    if os.geteuid() != 0 or os.path.ismount(path):
        return
    options = f"mode=0777,size={size_of(volume, spec, machine)}"
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.fsencode(path)
    if libc.mount(b"tmpfs", place, b"tmpfs", ctypes.c_ulong(_NOSUID_NODEV), options.encode()) != 0:
        number = ctypes.get_errno()
        if number not in (1, 13):  # root without the right to mount: as another user
            raise OSError(number, os.strerror(number))


def size_of(volume: Object, spec: PodSpec, machine: int) -> int:
    """Its sizeLimit, no more than the pod's containers may have together, and no more than the machine has. Pure."""
    limit = milli((volume.get("emptyDir") or {}).get("sizeLimit")) // 1000
    limits = [milli(((c.raw.get("resources") or {}).get("limits") or {}).get("memory")) // 1000 for c in spec.apps]
    together = sum(limits) if limits and all(limits) else 0
    return min(size for size in (limit, together, machine or 1 << 62) if size)
