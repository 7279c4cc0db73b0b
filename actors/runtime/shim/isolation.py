"""Namespaces of one container: its mounts, the root of its image, its host name, its PID namespace.

The container's first process makes them for itself, they end with it, and commands beside it join them. The PID
namespace is different: the shim unshares it before it forks, and every later child of the shim is in it.

Mounts appear inside the container only; what is mounted on the host later is seen inside too. A missing mount point is
created, empty: in the image's root for the container alone, else on the host.
"""

import os
import stat
from typing import Any, NamedTuple

from actors.runtime.shim import system
from protocols.process.beneath import Walk, open_beneath, proc_path

_RDONLY, _REMOUNT, _BIND, _REC, _SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of the source's file system that a remount must repeat: the kernel rejects a remount that drops them."""


class Mount(NamedTuple):
    source: str
    target: str
    readonly: bool


def new_mount_namespace(hostname: bool = False) -> None:
    """Unshare mounts (and the host name) and stop propagation to the host. Raises RuntimeError."""
    checked("a mount namespace of its own", lambda: system.new_namespaces(hostname))
    checked("mounts of its own", lambda: system.mount("", "/", _REC | _SLAVE))


def join_namespaces(pid: int, hostname: bool = False) -> None:
    """Enter the namespaces of a running container. Raises RuntimeError."""
    try:
        kinds = ["uts", "mnt"] if hostname else ["mnt"]  # after mnt the host's /proc is out of sight
        descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        for descriptor in descriptors:
            system.enter_namespace(descriptor)
    except OSError as error:
        raise RuntimeError(f"the container's namespaces: {os.strerror(error.errno or 0).lower()}") from None


def bind(mount: Mount, top: str = "") -> None:
    """Bind one mount, below the future root `top` if given. Raises RuntimeError that names the mount."""
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
    """Remount the root read-only; mounts below it keep their flags."""
    _seal("/")


def make_directory(top: str, path: str) -> None:
    """Create a directory at `path` below the future root. Raises OSError."""
    os.close(_opened(top, path, Walk(in_root=True, make=0o755)))


def mount_proc(top: str) -> None:
    """Mount proc at /proc of the future root, or of the current one. Raises OSError."""
    place = _opened(top or "/", "/proc", Walk(in_root=True))
    try:
        system.mount("proc", proc_path(place), 0, "proc")
    finally:
        os.close(place)


def _bind_below(top: str, mount: Mount) -> None:
    """Mount by descriptor: the target may lie in a volume that another container of the pod changes meanwhile."""
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


_SHARED = ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
_TREES = ("/dev", "/sys")


class Root(NamedTuple):
    image: str
    """Lower directory of the overlay: the image's files, never changed."""
    own: str
    """Directory of the container: its `upper` holds the changes."""


def prepare_root(given: Root) -> str:
    """Mount the overlay with /dev, /sys and the host's network files; return its path. Raises RuntimeError."""
    top = f"{given.own}/merged"
    for part in ("upper", "work", "merged"):
        os.makedirs(f"{given.own}/{part}", 0o755, exist_ok=True)
    options = f"lowerdir={_quoted(given.image)},upperdir={_quoted(given.own)}/upper,workdir={_quoted(given.own)}/work"
    checked("the image's root (overlay)", lambda: system.mount("overlay", top, 0, "overlay", options))
    make_directory(top, "/proc")
    for tree in _TREES:
        bind(Mount(tree, tree, readonly=False), top)
    for file in _SHARED:
        if os.path.isfile(file):
            bind(Mount(os.path.realpath(file), file, readonly=False), top)
    return top


def pivot_to(top: str) -> None:
    """Make `top` the root. Raises RuntimeError."""
    os.chdir(top)
    checked("the image's root", system.pivot_root_here)
    os.chdir("/")


def _quoted(path: str) -> str:
    r"""Escape what would end a mount option: `\,`."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


class Isolation(NamedTuple):
    mounts: tuple[Mount, ...] = ()
    hostname: str = ""
    """Empty: the host's."""
    processes: bool = False
    """PID namespace: its first process has PID 1 and sees no process of the host."""
    root: Root | None = None
    readonly: bool = False
    """Read-only root."""

    @property
    def own_namespace(self) -> bool:
        """True if the container has a mount namespace."""
        return bool(self.mounts or self.hostname or self.processes or self.root or self.readonly)


NOTHING = Isolation()


def parse(record: dict[str, Any] | None) -> Isolation:
    if not record:
        return NOTHING
    places = tuple(Mount(*entry) for entry in record.get("mounts") or ())
    image = Root(**record["root"]) if record.get("root") else None
    return Isolation(**{**record, "mounts": places, "root": image})


def unshare_pids(isolation: Isolation) -> None:
    """Call in the shim before it forks the container's first process. Raises RuntimeError."""
    if isolation.processes:
        checked("process numbers of its own", system.new_pid_namespace)


def enter(isolation: Isolation, beside: int, directory: str) -> None:
    """Call in the child: create everything else, or join the namespaces of process `beside`. Raises RuntimeError.

    The working directory `directory` is created in an image that lacks it.
    """
    if not isolation.own_namespace:
        return
    if beside:
        join_namespaces(beside, hostname=bool(isolation.hostname))
        return
    new_mount_namespace(hostname=bool(isolation.hostname))
    top = prepare_root(isolation.root) if isolation.root else ""
    if isolation.processes or top:
        checked("its /proc", lambda: mount_proc(top))
    for mount in sorted(isolation.mounts, key=lambda m: m.target.rstrip("/").count("/")):
        bind(mount, top)
    if top:
        checked("its working directory", lambda: make_directory(top, directory))
        pivot_to(top)
    if isolation.readonly:
        checked("a read-only root", seal_root)
    if isolation.hostname:
        checked("its host name", lambda: system.set_hostname(os.fsencode(isolation.hostname)))
