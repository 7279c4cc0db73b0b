"""What a container has of its own, and how it finds what is mounted into it: at its place where the kernel lets us,
else by a variable each."""

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.runtime.model.containers import Image
from actors.runtime.model.cri_messages import host_network
from actors.runtime.model.errors import InvalidRequest
from protocols.wire import cri_pb2 as pb

VARIABLE = "NODEPLANE_MOUNT_"
ISOLATION = "nodeplane.dev/isolation"
"""Annotation of a pod: which of PID and UTS its containers have of their own, separated by commas."""
PID, UTS = "pid", "uts"
OWN_ROOT = "root"
"""Directory below a shim's, for what a container changes of its image."""
RESOLV_FILE, RESOLV_PATH = "resolv.conf", "/etc/resolv.conf"
"""File below a shim's directory, and where the container finds it."""
_NEEDS = "needs nodeplane to run as root with CAP_SYS_ADMIN"
_CAP_SYS_ADMIN = 21


def mount_variables(mounts: Sequence[pb.Mount]) -> dict[bytes, bytes]:
    """`NODEPLANE_MOUNT_ETC_CONFIG=<host path>` for a mount at /etc/config: true with and without a namespace."""
    names = ((VARIABLE + re.sub(r"[^A-Za-z0-9]+", "_", m.container_path.strip("/")).upper(), m) for m in _moved(mounts))
    return {os.fsencode(name): os.fsencode(mount.host_path) for name, mount in names}


def isolation_spec(
    config: pb.ContainerConfig, pod: pb.PodSandboxConfig, image: Image | None, directory: str
) -> dict[str, Any] | None:
    """Fields of shim.isolation.Isolation; None where it has nothing of its own. Raises InvalidRequest."""
    wanted, allowed = _wanted(pod), namespaces_allowed()
    context = config.linux.security_context
    readonly = context.readonly_rootfs
    wished = [*config.mounts, *_devices(config.devices)]
    mounts = _checked(wished) if image or readonly else _moved(wished)
    if wanted and not allowed:
        raise InvalidRequest(f"annotation {ISOLATION} {_NEEDS}")
    if image and not allowed:
        name = image.names[0] if image.names else image.id
        raise InvalidRequest(f'image "{name}" has a root of its own, which {_NEEDS}')
    if not allowed or not (mounts or wanted or image or readonly or resolv_conf(pod)):
        return None
    places = [[m.host_path, m.container_path, m.readonly] for m in mounts]
    return {
        "mounts": [[f"{directory}/{RESOLV_FILE}", RESOLV_PATH, False], *places] if resolv_conf(pod) else places,
        "hostname": _hostname(pod) if UTS in wanted or (image and not host_network(pod)) else "",
        "processes": PID in wanted and context.namespace_options.pid == pb.CONTAINER,
        "root": {"image": image.root, "own": f"{directory}/{OWN_ROOT}"} if image else None,
        "readonly": readonly,
    }


def resolv_conf(pod: pb.PodSandboxConfig) -> str:
    """The content of /etc/resolv.conf of a pod that has its own; empty: the host's."""
    dns = pod.dns_config
    lines = [f"nameserver {server}" for server in dns.servers]
    lines += [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    return "".join(f"{line}\n" for line in lines)


def _devices(devices: Sequence[pb.Device]) -> list[pb.Mount]:
    """/dev is the host's: only a device that is to be found under another name needs a mount of its own."""
    found = (pb.Mount(host_path=item.host_path, container_path=item.container_path) for item in devices)
    return [mount for mount in found if mount.host_path != mount.container_path]


def _wanted(pod: pb.PodSandboxConfig) -> set[str]:
    text = pod.annotations.get(ISOLATION, "")
    wanted = {part.strip() for part in text.split(",")} - {"", "none"}
    if strange := sorted(wanted - {PID, UTS}):
        raise InvalidRequest(f'annotation {ISOLATION}: "{strange[0]}" is none of {PID}, {UTS}')
    return wanted


def _hostname(pod: pb.PodSandboxConfig) -> str:
    """The kernel takes 64 bytes."""
    return (pod.hostname or pod.metadata.name)[:63].rstrip("-.")


def _moved(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    """Those that lie elsewhere than on the host."""
    return _checked([m for m in mounts if os.path.normpath(m.container_path) != os.path.normpath(m.host_path)])


def _checked(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    for mount in mounts:
        if not mount.container_path.startswith("/") or os.path.normpath(mount.container_path) == "/":
            raise InvalidRequest(f'mount at "{mount.container_path}": that is no place below the root')
    return list(mounts)


@functools.cache
def namespaces_allowed() -> bool:
    """Root with CAP_SYS_ADMIN."""
    if os.geteuid() != 0:
        return False
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(held, 16) >> _CAP_SYS_ADMIN & 1)
