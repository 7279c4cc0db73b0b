"""Root directory of a container with an image: the image's files under an overlay, /dev, /sys and host files.

Unprivileged containers get a /dev of their own with the devices of the OCI default, and no device node that they make
works. Privileged ones get the host's.
"""

import contextlib
import os
from typing import NamedTuple

from actors.runtime.shim import system
from actors.runtime.shim.mounts import (
    Mount,
    bind,
    checked,
    make_directory,
    mount_kind,
    opened,
)
from protocols.process import linux
from protocols.process.beneath import Walk, proc_path
from protocols.process.linux import NODEV, NOEXEC, NOSUID

_HOSTNAME = "/etc/hostname"
_COPIED = ("/etc/resolv.conf", "/etc/hosts", _HOSTNAME)
"""Files of the host of which a container gets copies, since it may write to them."""
_MOST_BYTES = 1 << 20
_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)


class Root(NamedTuple):
    """Directories of a container's overlay."""

    image: str
    """Lower directory of the overlay: the image's files, never changed."""
    own: str
    """Directory of the container: its `upper` holds the changes."""


def prepare_root(given: Root, privileged: bool, hostname: str) -> str:
    """Mount the overlay with /dev, /sys and network files; return its path. Raises RuntimeError.

    Without a `hostname` /etc/hostname is the host's.
    """
    top = f"{given.own}/merged"
    for part in ("upper", "work", "merged"):
        os.makedirs(f"{given.own}/{part}", 0o755, exist_ok=True)
    options = f"lowerdir={_quoted(given.image)},upperdir={_quoted(given.own)}/upper,workdir={_quoted(given.own)}/work"
    flags = 0 if privileged else NODEV
    checked("the image's root (overlay)", lambda: linux.mount("overlay", top, flags, "overlay", options))
    make_directory(top, "/proc")
    bind(Mount("/sys", "/sys", readonly=not privileged, recursive=True), top)
    if privileged:
        bind(Mount("/dev", "/dev", readonly=False), top)
    else:
        checked("its /dev", lambda: _own_devices(top))
    checked("its network files", lambda: _copy_files(given.own, hostname))
    for file in filter(os.path.isfile, _COPIED):
        bind(Mount(f"{given.own}/{os.path.basename(file)}", file, readonly=False), top)
    return top


def _copy_files(directory: str, hostname: str) -> None:
    for file in filter(os.path.isfile, _COPIED):
        with open(file, "rb") as source, open(f"{directory}/{os.path.basename(file)}", "wb") as copy:
            copy.write(os.fsencode(f"{hostname}\n") if hostname and file == _HOSTNAME else source.read(_MOST_BYTES))


def _own_devices(top: str) -> None:
    mount_kind(top, "/dev", "tmpfs", NOSUID | NODEV | NOEXEC, "mode=755,size=65536k")
    dev = opened(top, "/dev", Walk(in_root=True))
    try:
        for name, target in _LINKS:
            os.symlink(target, name, dir_fd=dev)
        for name in ("pts", "shm", "mqueue"):
            os.mkdir(name, dir_fd=dev)
        terminals = "newinstance,ptmxmode=0666,mode=0620,gid=5"
        linux.mount("devpts", f"{proc_path(dev)}/pts", NOSUID | NOEXEC, "devpts", terminals)
        with contextlib.suppress(OSError):  # a kernel without POSIX message queues
            linux.mount("mqueue", f"{proc_path(dev)}/mqueue", NOSUID | NODEV | NOEXEC, "mqueue")
    finally:
        os.close(dev)
    if os.path.isdir("/dev/shm"):
        bind(Mount("/dev/shm", "/dev/shm", readonly=False, nodev=True), top)  # IPC is the host's, and shared by the pod


def pivot_to(top: str) -> None:
    """Make `top` the root. Raises RuntimeError."""
    os.chdir(top)
    checked("the image's root", system.pivot_root_here)
    os.chdir("/")


def _quoted(path: str) -> str:
    r"""Escape what would end a mount option: `\,`."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


CGROUPS = "/sys/fs/cgroup"


class CgroupView(NamedTuple):
    """Cgroup of the container as it sees it."""

    group: str
    name: str
    """Controller of version 1, below /sys/fs/cgroup; empty with version 2."""


def show_cgroups(views: tuple[CgroupView, ...], top: str, privileged: bool) -> None:
    """Mount the container's own groups at /sys/fs/cgroup, where programs look up their limits. Raises RuntimeError."""
    if not views:
        return
    opened_groups = [(os.open(view.group, os.O_PATH | os.O_CLOEXEC), view) for view in views]
    try:
        if any(view.name for view in views):  # hides the groups' own paths in a container without an image
            checked("its cgroups", lambda: mount_kind(top, CGROUPS, "tmpfs", NOSUID | NODEV | NOEXEC, "mode=755"))
        for group, view in opened_groups:
            place = f"{CGROUPS}/{view.name}".rstrip("/")
            bind(Mount(proc_path(group), place, readonly=not privileged, propagated=False), top)
    finally:
        for group, _ in opened_groups:
            os.close(group)
