"""Namespaces of one container: mounts, the root of its image, host name, processes, IPC, cgroups.

The container's first process makes them for itself, they end with it, and commands beside it join them. The PID
namespace is different: the shim unshares or joins it before it forks, and every later child of the shim is in it.
Namespaces of a whole pod are held by a process of the pod, and joined.
"""

import os
from typing import Any, NamedTuple

from actors.runtime.shim import mounts, system
from actors.runtime.shim.mounts import DEVICES, MissingDevice, Mount, bind, checked, make_directory
from actors.runtime.shim.root import CgroupView, Root, pivot_to, prepare_root, show_cgroups


class Isolation(NamedTuple):
    """Namespaces of a container and what is in them; by default it has none of its own."""

    mounts: tuple[Mount, ...] = ()
    hostname: str = ""
    """Empty: the host's."""
    processes: bool = False
    """PID namespace: its first process has PID 1 and sees no process of the host."""
    pid_of: int = 0
    """Process whose PID namespace it joins instead; 0: none."""
    ipc_of: int = 0
    """Process whose IPC namespace it joins; 0: none."""
    root: Root | None = None
    readonly: bool = False
    """Read-only root."""
    privileged: bool = False
    nodes: tuple[MissingDevice, ...] = ()
    masked: tuple[str, ...] = ()
    """Paths that it cannot read."""
    sealed: tuple[str, ...] = ()
    """Paths that it cannot write to."""
    views: tuple[CgroupView, ...] = ()
    """Its cgroups, for a cgroup namespace."""
    scratch: str = ""
    """Directory for a file system of device nodes."""

    @property
    def own_namespace(self) -> bool:
        """True if the container has a mount namespace."""
        return self != NOTHING

    @property
    def kinds(self) -> list[str]:
        """Namespaces that its first process makes for itself, the one of mounts last."""
        return [*(["uts"] if self.hostname else []), *(["cgroup"] if self.views else []), "mnt"]


NOTHING = Isolation()
KERNELS = ("/dev", "/proc", "/sys")


def parse(record: dict[str, Any] | None) -> Isolation:
    """Read an isolation from JSON; None is that of a container in the host's namespaces."""
    if not record:
        return NOTHING
    image = Root(**record["root"]) if record.get("root") else None
    lists = {
        "mounts": tuple(Mount(*entry) for entry in record.get("mounts") or ()),
        "nodes": tuple(MissingDevice(*entry) for entry in record.get("nodes") or ()),
        "views": tuple(CgroupView(*entry) for entry in record.get("views") or ()),
        "masked": tuple(record.get("masked") or ()),
        "sealed": tuple(record.get("sealed") or ()),
    }
    return Isolation(**{**record, **lists, "root": image})


def select_pids(isolation: Isolation) -> None:
    """Call in the shim before it forks the container's first process. Raises RuntimeError."""
    if isolation.pid_of:
        _join(isolation.pid_of, ["pid"])
    elif isolation.processes:
        checked("process numbers of its own", lambda: system.new_namespaces(["pid"]))


def enter(isolation: Isolation, beside: int, directory: str) -> None:
    """Call in the child: create everything else, or join the namespaces of process `beside`. Raises RuntimeError.

    The working directory `directory` is created in an image that lacks it.
    """
    if not isolation.own_namespace:
        return
    if beside:
        _join(beside, [*(["ipc"] if isolation.ipc_of else []), *isolation.kinds])
        return
    if isolation.ipc_of:
        _join(isolation.ipc_of, ["ipc"])
    checked("namespaces of its own", lambda: system.new_namespaces(isolation.kinds))
    mounts.stop_propagation()
    top = _root(isolation)
    _fill(isolation, top)
    if top:
        checked("its working directory", lambda: make_directory(top, directory))
        pivot_to(top)
    _restrict(isolation)
    if isolation.hostname:
        checked("its host name", lambda: system.set_hostname(os.fsencode(isolation.hostname)))


def _root(isolation: Isolation) -> str:
    return prepare_root(isolation.root, isolation.privileged, isolation.hostname) if isolation.root else ""


def _fill(isolation: Isolation, top: str) -> None:
    """Mount all that the container sees, below `top` if it has an image."""
    if isolation.processes or isolation.pid_of or top:
        checked("its /proc", lambda: mounts.mount_proc(top))
    show_cgroups(isolation.views, top, isolation.privileged)
    default = DEVICES if top and not isolation.privileged else ()
    mounts.make_nodes((*default, *isolation.nodes), isolation.scratch, top)
    for mount in sorted(isolation.mounts, key=lambda m: m.target.rstrip("/").count("/")):
        bind(mount, top)


def _restrict(isolation: Isolation) -> None:
    checked("masked paths", lambda: mounts.mask(isolation.masked))
    for path in isolation.sealed:
        checked(f"read-only {path}", lambda path=path: mounts.seal_path(path))  # type: ignore[misc]
    if isolation.readonly:
        checked("a read-only root", lambda: _seal_root(isolation))


def _seal_root(isolation: Isolation) -> None:
    """Volumes and the kernel's file systems are no part of the root; of the host's root, its other disks are."""
    if isolation.root:
        mounts.seal("/")
    else:
        mounts.seal_host((*KERNELS, *(os.path.realpath(mount.target) for mount in isolation.mounts)))


def _join(pid: int, kinds: list[str]) -> None:
    """Enter namespaces of a running process; all are opened first, since its /proc may be out of sight then."""
    try:
        descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        for descriptor in descriptors:
            system.enter_namespace(descriptor)
            os.close(descriptor)
    except OSError as error:
        raise RuntimeError(f"the container's namespaces: {os.strerror(error.errno or 0).lower()}") from None
