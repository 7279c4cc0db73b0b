"""What podworker mounted for pods (emptyDir in memory) goes with the containers: a root that is down can be removed."""

import ctypes
import os
from pathlib import Path

_MNT_DETACH = 2
_PODS = "pods"


def unmount_below(root: Path) -> None:
    """Whatever is mounted below ROOT/pods; as the machine's end would, it empties the volumes. Root's business only."""
    if os.geteuid() != 0:
        return
    prefix = os.fsencode(root / _PODS) + b"/"
    libc = ctypes.CDLL(None)
    for place in reversed(_mounts()):
        if place.startswith(prefix):
            libc.umount2(place, _MNT_DETACH)


def _mounts() -> list[bytes]:
    """Mount points, in the order in which they were made; the kernel writes spaces in octal."""
    try:
        lines = Path("/proc/self/mounts").read_bytes().splitlines()
    except OSError:
        return []
    return [line.split(b" ")[1].replace(b"\\040", b" ") for line in lines]
