"""A mount namespace for one container: its mounts appear at their places, to nobody else, and end with it.

What is mounted on the host later is seen inside. A mount point that does not exist is made, empty: in the image's root
for the container alone, else on the host.
"""

import os
import stat
from typing import NamedTuple

from actors.runtime.shim import system
from protocols.beneath import Walk, open_beneath, proc_path

_RDONLY, _REMOUNT, _BIND, _REC, _SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of the source's file system that a remount must repeat."""


class Mount(NamedTuple):
    source: str
    target: str
    readonly: bool


def enter_own(hostname: bool = False) -> None:
    """Raises RuntimeError."""
    checked("a mount namespace of its own", lambda: system.new_namespaces(hostname))
    checked("mounts of its own", lambda: system.mount("", "/", _REC | _SLAVE))


def join(pid: int, hostname: bool = False) -> None:
    """Enter the namespaces of a running container. Raises RuntimeError."""
    try:
        kinds = ["uts", "mnt"] if hostname else ["mnt"]  # after mnt the host's /proc is out of sight
        descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        for descriptor in descriptors:
            system.enter_namespace(descriptor)
    except OSError as error:
        raise RuntimeError(f"the container's namespaces: {os.strerror(error.errno or 0).lower()}") from None


def bind(mount: Mount, top: str = "") -> None:
    """Below `top`, the root to be. Raises RuntimeError that names the mount which cannot be made."""
    try:
        if top:
            _bind_below(top, mount)
            return
        _make_target(mount.source, mount.target)
        system.mount(mount.source, mount.target, _BIND | _REC)
        if mount.readonly:
            _seal(mount.target)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise RuntimeError(f'mount "{mount.target}": host path "{mount.source}": {why}') from None


def seal_root() -> None:
    """Mounts below it keep their own rights."""
    _seal("/")


def make_directory(top: str, path: str) -> None:
    """Make a directory at `path` of the root to be. Raises OSError."""
    os.close(_opened(top, path, Walk(in_root=True, make=0o755)))


def mount_proc(top: str) -> None:
    """At /proc of the root to be, or here. Raises OSError."""
    place = _opened(top or "/", "/proc", Walk(in_root=True))
    try:
        system.mount("proc", proc_path(place), 0, "proc")
    finally:
        os.close(place)


def _bind_below(top: str, mount: Mount) -> None:
    """The place may lie in a volume that another container of the pod is changing: it is mounted by its descriptor."""
    is_file = not stat.S_ISDIR(os.stat(mount.source).st_mode)
    target = _opened(top, mount.target, Walk(in_root=True, make=0o755, file=is_file))
    try:
        system.mount(mount.source, proc_path(target), _BIND | _REC)
    finally:
        os.close(target)
    if mount.readonly:
        mounted = _opened(top, mount.target, Walk(in_root=True))  # the first descriptor lies below the mount
        try:
            _seal(proc_path(mounted))  # no mount, if somebody moved the place: EINVAL, and the container does not start
        finally:
            os.close(mounted)


def _opened(top: str, path: str, walk: Walk) -> int:
    """Links in `path` lead to places below `top`, as they will once it is the root."""
    root = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(root, path, walk)
    finally:
        os.close(root)


def checked(what: str, call: "system.Call") -> None:
    try:
        call()
    except OSError as error:
        raise RuntimeError(f"{what}: {os.strerror(error.errno or 0).lower()}") from None


def _seal(target: str) -> None:
    kept = os.statvfs(target).f_flag & _KEPT
    system.mount("", target, _BIND | _REMOUNT | _RDONLY | kept)


def _make_target(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, 0o755, exist_ok=True)
    elif not os.path.exists(target):
        os.stat(source)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
