"""Mounts of one container, in its own mount namespace: binds, read-only and masked paths, device nodes.

Mounts appear inside the container only; what is mounted on the host later is seen inside too. A missing mount point is
created, empty: in the image's root for the container alone, else on the host.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.runtime.shim import system
from protocols.process import linux
from protocols.process.beneath import Walk, open_beneath, proc_path
from protocols.process.linux import BIND, NODEV, NOEXEC, NOSUID, RDONLY, RECURSIVE, SLAVE
from protocols.process.mountinfo import mounts_of

_REMOUNT = 0x20
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of the source's file system that a remount must repeat: the kernel rejects a remount that drops them."""


_OPTIONS = {"ro": RDONLY, "nosuid": NOSUID, "nodev": NODEV, "noexec": NOEXEC}


class Mount(NamedTuple):
    """A bind mount into a container."""

    source: str
    target: str
    readonly: bool
    recursive: bool = False
    """With `readonly`: mounts below it are read-only too."""
    noexec: bool = False
    """With `readonly`: programs on it cannot be executed."""
    propagated: bool = True
    """Mounts below the source come along."""
    nodev: bool = False
    """Device nodes on it do not work, nor on mounts below."""


class MissingDevice(NamedTuple):
    """Device node that the host lacks."""

    path: str
    kind: str
    """`c` or `u`: character device; `b`: block device; `p`: FIFO."""
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0


DEVICES = (
    MissingDevice("/dev/null", "c", 1, 3),
    MissingDevice("/dev/zero", "c", 1, 5),
    MissingDevice("/dev/full", "c", 1, 7),
    MissingDevice("/dev/random", "c", 1, 8),
    MissingDevice("/dev/urandom", "c", 1, 9),
    MissingDevice("/dev/tty", "c", 5, 0),
)
"""Devices that every container has; of the OCI runtime specification."""
_TUN = (10, 200)
_HARMLESS = frozenset(os.makedev(*pair) for pair in (*((device.major, device.minor) for device in DEVICES), _TUN))


def stop_propagation() -> None:
    """Keep mounts of this namespace from the host. Raises RuntimeError."""
    checked("mounts of its own", lambda: linux.mount("", "/", RECURSIVE | SLAVE))


def bind(mount: Mount, top: str = "") -> None:
    """Bind one mount, below the future root `top` if given. Raises RuntimeError that names the mount."""
    try:
        if top:
            _bind_below(top, mount)
            return
        _make_target(mount.source, mount.target)
        linux.mount(mount.source, mount.target, _flags(mount))
        _restrict(mount.target, mount)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise RuntimeError(f'mount "{mount.target}": host path "{mount.source}": {why}') from None


def _flags(mount: Mount) -> int:
    return BIND | (RECURSIVE if mount.propagated else 0)


def _bind_below(top: str, mount: Mount) -> None:
    """Mount by descriptor: the target may lie in a volume that another container of the pod changes meanwhile."""
    is_file = not stat.S_ISDIR(os.stat(mount.source).st_mode)
    target = opened(top, mount.target, Walk(in_root=True, make=0o755, file=is_file))
    try:
        linux.mount(mount.source, proc_path(target), _flags(mount))
    finally:
        os.close(target)
    if mount.readonly or mount.nodev:
        mounted = opened(top, mount.target, Walk(in_root=True))  # the first descriptor lies below the mount
        try:
            _restrict(proc_path(mounted), mount)  # no mount, if somebody moved the place: EINVAL, and nothing starts
        finally:
            os.close(mounted)


def _make_target(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, 0o755, exist_ok=True)
    elif not os.path.exists(target):
        os.stat(source)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def _restrict(target: str, mount: Mount) -> None:
    if mount.readonly:
        seal(target, mount)
    if mount.nodev and not _is_harmless(mount.source):
        _restrict_tree(target, NODEV)


def _is_harmless(source: str) -> bool:
    """Return True for a device that every container may use, or for /dev/net/tun, as OCI runtimes have it.

    Some mount /dev/null at a path to hide what is there.
    """
    st = os.stat(source)
    return stat.S_ISCHR(st.st_mode) and st.st_rdev in _HARMLESS


_PLAIN = Mount("", "", readonly=True)


def seal(target: str, mount: Mount = _PLAIN) -> None:
    """Remount read-only; mounts below keep their flags unless `mount` is recursive. Raises OSError."""
    flags = os.statvfs(target).f_flag & _KEPT | (NOEXEC | NOSUID | NODEV if mount.noexec else 0)
    linux.mount("", target, BIND | _REMOUNT | RDONLY | flags)
    if mount.recursive:
        _restrict_tree(target, RDONLY)


def _restrict_tree(target: str, flag: int) -> None:
    try:
        system.restrict_recursively(target, flag)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # EPERM: a seccomp filter older than the call
            raise
        top = os.path.realpath(target)
        _restrict_points(lambda point: _within(point, top), flag)


def seal_host(kept: Iterable[str]) -> None:
    """Make the file systems of the host read-only for the container, but those at or below the paths `kept`.

    Raises OSError. What another mount hides stays as it is, since nobody can reach it.
    """
    paths = tuple(kept)
    _restrict_points(lambda point: not any(_within(point, path) for path in paths), RDONLY)


def _within(point: str, path: str) -> bool:
    return point == path or point.startswith(f"{path}/")


def _restrict_points(selected: Callable[[str], bool], flag: int) -> None:
    for mounted in mounts_of():
        if not selected(mounted.point):
            continue
        flags = sum(kept for name, kept in _OPTIONS.items() if name in mounted.options)
        try:
            linux.mount("", mounted.point, BIND | _REMOUNT | flag | flags)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR) or mounted.point == "/":
                raise


def seal_path(path: str) -> None:
    """Make a path of this root read-only for the container; a missing one is no error. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        linux.mount(path, path, BIND | RECURSIVE)
        seal(path)


def mask(paths: tuple[str, ...]) -> None:
    """Hide paths of this root: files behind /dev/null, directories behind an empty one. Raises OSError.

    Of a symbolic link the link is hidden: what it points to may be the program of the container. Volumes at /dev and
    /proc/PID may replace what is mounted by a file of /proc/sys, which could be written to there (CVE-2025-31133 of
    runc): ENODEV, and nothing starts.
    """
    empty = ""
    for path in paths:
        try:
            kind = os.lstat(path).st_mode
        except OSError:
            continue  # not there for the container either
        if not stat.S_ISDIR(kind):
            _mask_file(path)
            if os.lstat(path).st_rdev != os.makedev(DEVICES[0].major, DEVICES[0].minor):
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), path)
        elif empty:
            linux.mount(empty, path, BIND)
        else:
            linux.mount("tmpfs", path, RDONLY, "tmpfs", "size=0k")
            empty = path


def _mask_file(path: str) -> None:
    """Mount on the file, or the link itself, which only its descriptor names: a path would be followed."""
    link = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        linux.mount("/dev/null", proc_path(link), BIND)
    finally:
        os.close(link)


def make_directory(top: str, path: str) -> None:
    """Create a directory at `path` below the future root. Raises OSError."""
    os.close(opened(top, path, Walk(in_root=True, make=0o755)))


def mount_kind(top: str, path: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system of the kernel at `path` below the future root, or below the current one. Raises OSError."""
    place = opened(top or "/", path, Walk(in_root=True, make=0o755 if top else None))
    try:
        linux.mount(kind, proc_path(place), flags, kind, options)
    finally:
        os.close(place)


def mount_proc(top: str) -> None:
    """Mount proc at /proc of the future root, or of the current one. Raises OSError."""
    mount_kind(top, "/proc", "proc", NOSUID | NODEV | NOEXEC)


def opened(top: str, path: str, walk: Walk) -> int:
    """Open `path`, resolving links below `top` as they will resolve once it is the root."""
    root = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(root, path, walk)
    finally:
        os.close(root)


def checked(what: str, call: "system.Call") -> None:
    """Call; raise RuntimeError that names `what` on OSError."""
    try:
        call()
    except OSError as error:
        raise RuntimeError(f"{what}: {os.strerror(error.errno or 0).lower()}") from None


_KINDS = {"c": stat.S_IFCHR, "u": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}


def make_nodes(nodes: tuple[MissingDevice, ...], scratch: str, top: str) -> None:
    """Make device nodes on a file system of their own and bind them below `top`. Raises RuntimeError.

    Nobody can reach that file system by a path afterwards, so the container can add no node to it.
    """
    if not nodes:
        return
    os.makedirs(scratch, 0o700, exist_ok=True)
    checked("a place for device nodes", lambda: linux.mount("tmpfs", scratch, NOSUID | NOEXEC, "tmpfs", "mode=0700"))
    try:
        for number, node in enumerate(nodes):
            path = f"{scratch}/{number}"
            source = node.path if not _make_node(node, path) else path
            bind(Mount(source, node.path, readonly=False), top)
    finally:
        checked("a place for device nodes", lambda: linux.detach(scratch))


def _make_node(node: MissingDevice, place: str) -> bool:
    """Make the node; False where that is not permitted and the host has the same one. Raises RuntimeError."""
    try:
        os.mknod(place, node.mode & 0o7777 | _KINDS[node.kind], os.makedev(node.major, node.minor))
        os.chown(place, node.uid, node.gid)
        os.chmod(place, node.mode & 0o7777)
    except OSError as error:
        if error.errno == errno.EPERM and _on_host(node):
            return False
        why = os.strerror(error.errno or 0).lower()
        how = "; this needs CAP_MKNOD" if error.errno == errno.EPERM else ""
        raise RuntimeError(f'device node "{node.path}" ({node.kind} {node.major}:{node.minor}): {why}{how}') from None
    return True


def _on_host(node: MissingDevice) -> bool:
    try:
        st = os.stat(node.path)
    except OSError:
        return False
    return stat.S_IFMT(st.st_mode) == _KINDS[node.kind] and st.st_rdev == os.makedev(node.major, node.minor)
