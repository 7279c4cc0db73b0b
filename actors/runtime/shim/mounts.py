"""A mount namespace for one container: its mounts appear at their places, to nobody else, and end with it.

What is mounted on the host later is seen inside. A mount point that does not exist is made, empty: in the image's root
for the container alone, else on the host.
"""

import os
from typing import NamedTuple

from actors.runtime.shim import system

_RDONLY, _REMOUNT, _BIND, _REC, _SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of the source's file system that a remount must repeat."""
_LINKS = 40


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
        target = inside(top, mount.target) if top else mount.target
        _make_target(mount.source, target)
        system.mount(mount.source, target, _BIND | _REC)
        if mount.readonly:
            _seal(target)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise RuntimeError(f'mount "{mount.target}": host path "{mount.source}": {why}') from None


def seal_root() -> None:
    """Mounts below it keep their own rights."""
    _seal("/")


def inside(top: str, path: str) -> str:
    """Where `path` is once `top` is the root: links of the image lead to places in the image. Raises OSError."""
    done, rest, links = "", path.split("/"), 0
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = os.path.dirname(done) if done else ""
            continue
        step = f"{done}/{part}"
        if os.path.islink(top + step) and (links := links + 1) <= _LINKS:
            goal = os.readlink(top + step)
            done, rest = ("" if goal.startswith("/") else done), goal.split("/") + rest
        else:
            done = "/" if step == "/" else step
    return top + done


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
