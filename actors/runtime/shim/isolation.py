"""What a container has of its own: mounts, the root of an image, a host name, process numbers. All of it ends with it.

Made by the container's first process for itself; commands beside it enter. Process numbers are the shim's to part with,
before it forks: `apart` there, and every later child of the shim is in that namespace.
"""

import os
from typing import Any, NamedTuple

from actors.runtime.shim import mounts, root, system
from actors.runtime.shim.mounts import Mount
from actors.runtime.shim.root import Root


class Isolation(NamedTuple):
    mounts: tuple[Mount, ...] = ()
    hostname: str = ""
    """Empty: the host's."""
    processes: bool = False
    """Its first process has number 1, and it sees no others than its own."""
    root: Root | None = None
    readonly: bool = False
    """Its root cannot be written to."""

    @property
    def own(self) -> bool:
        """It has a mount namespace at all."""
        return bool(self.mounts or self.hostname or self.processes or self.root or self.readonly)


NOTHING = Isolation()


def parse(record: dict[str, Any] | None) -> Isolation:
    if not record:
        return NOTHING
    places = tuple(Mount(*entry) for entry in record.get("mounts") or ())
    image = Root(**record["root"]) if record.get("root") else None
    return Isolation(**{**record, "mounts": places, "root": image})


def apart(isolation: Isolation) -> None:
    """In the shim, before it forks the container's first process. Raises RuntimeError."""
    if isolation.processes:
        mounts.checked("process numbers of its own", system.new_pid_namespace)


def enter(isolation: Isolation, beside: int, directory: str) -> None:
    """In the child: everything that is left, or the namespaces of the process `beside`. Raises RuntimeError.

    The working directory `directory` is made in an image that lacks it, as long as its root can be written to.
    """
    if not isolation.own:
        return
    if beside:
        mounts.join(beside, hostname=bool(isolation.hostname))
        return
    mounts.enter_own(hostname=bool(isolation.hostname))
    top = root.prepare(isolation.root) if isolation.root else ""
    if isolation.processes or top:
        mounts.checked("its /proc", lambda: mounts.mount_proc(top))
    for mount in sorted(isolation.mounts, key=lambda m: m.target.rstrip("/").count("/")):
        mounts.bind(mount, top)
    if top:
        mounts.checked("its working directory", lambda: mounts.make_directory(top, directory))
        root.turn_to(top)
    if isolation.readonly:
        mounts.checked("a read-only root", mounts.seal_root)
    if isolation.hostname:
        mounts.checked("its host name", lambda: system.set_hostname(os.fsencode(isolation.hostname)))
