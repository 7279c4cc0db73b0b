"""How a container finds what is mounted into it: at its place where the kernel lets us, else by a variable each."""

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from actors.runtime.errors import InvalidRequest
from protocols.wire import cri_pb2 as pb

VARIABLE = "NODEPLANE_MOUNT_"
_CAP_SYS_ADMIN = 21


def variables(mounts: Sequence[pb.Mount]) -> dict[bytes, bytes]:
    """`NODEPLANE_MOUNT_ETC_CONFIG=<host path>` for a mount at /etc/config: true with and without a namespace."""
    names = ((VARIABLE + re.sub(r"[^A-Za-z0-9]+", "_", m.container_path.strip("/")).upper(), m) for m in _moved(mounts))
    return {os.fsencode(name): os.fsencode(mount.host_path) for name, mount in names}


def places(mounts: Sequence[pb.Mount]) -> list[list[object]]:
    """Source, target, read-only of each mount the shim is to make; none where it may not. Raises InvalidRequest."""
    return [[m.host_path, m.container_path, m.readonly] for m in _moved(mounts)] if namespaces_allowed() else []


def _moved(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    moved = [m for m in mounts if os.path.normpath(m.container_path) != os.path.normpath(m.host_path)]
    for mount in moved:
        if not mount.container_path.startswith("/") or os.path.normpath(mount.container_path) == "/":
            raise InvalidRequest(f'mount at "{mount.container_path}": a container here has no root of its own to cover')
    return moved


@functools.cache
def namespaces_allowed() -> bool:
    """Root with CAP_SYS_ADMIN."""
    if os.geteuid() != 0:
        return False
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(held, 16) >> _CAP_SYS_ADMIN & 1)
