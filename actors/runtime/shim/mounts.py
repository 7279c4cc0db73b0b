"""A mount namespace for one container: its mounts appear at their places, to nobody else, and end with it.

What is mounted on the host later is seen inside. A mount point that does not exist is made, empty, on the host.
"""

import os
from typing import NamedTuple

from actors.runtime.shim import system

_RDONLY, _REMOUNT, _BIND, _REC, _SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of the source's file system that a remount must repeat."""


class Mount(NamedTuple):
    source: str
    target: str
    readonly: bool


def enter_own(mounts: tuple[Mount, ...]) -> None:
    """Raises RuntimeError that names the mount which cannot be made."""
    _checked("a mount namespace of its own", system.new_mount_namespace)
    _checked("mounts of its own", lambda: system.mount("", "/", _REC | _SLAVE))
    for mount in sorted(mounts, key=lambda m: m.target.rstrip("/").count("/")):
        _bind(mount)


def join(pid: int) -> None:
    """Enter the namespace of a running container. Raises RuntimeError."""
    try:
        descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        system.enter_mount_namespace(descriptor)
    except OSError as error:
        raise RuntimeError(f"the container's mounts: {os.strerror(error.errno or 0).lower()}") from None


def _bind(mount: Mount) -> None:
    try:
        _make_target(mount)
        system.mount(mount.source, mount.target, _BIND | _REC)
        if mount.readonly:
            kept = os.statvfs(mount.target).f_flag & _KEPT
            system.mount("", mount.target, _BIND | _REMOUNT | _RDONLY | kept)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise RuntimeError(f'mount "{mount.target}": host path "{mount.source}": {why}') from None


def _make_target(mount: Mount) -> None:
    if os.path.isdir(mount.source):
        os.makedirs(mount.target, 0o755, exist_ok=True)
    elif not os.path.exists(mount.target):
        os.stat(mount.source)
        os.makedirs(os.path.dirname(mount.target), 0o755, exist_ok=True)
        os.close(os.open(mount.target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def _checked(what: str, call: "system.Call") -> None:
    try:
        call()
    except OSError as error:
        raise RuntimeError(f"{what}: {os.strerror(error.errno or 0).lower()}") from None
