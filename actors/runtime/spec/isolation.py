"""Mounts and namespaces of a container, from its configuration.

Without CAP_SYS_ADMIN nothing can be mounted; then an environment variable per mount names the host path.
"""

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
"""Pod annotation: namespaces (pid, uts) of its own for each container, separated by commas."""
PID, UTS = "pid", "uts"
OWN_ROOT = "root"
"""Directory below a shim's for the changes of a container to its image."""
RESOLV_FILE, RESOLV_PATH = "resolv.conf", "/etc/resolv.conf"
"""File below a shim's directory, and its path in the container."""
_NEEDS = "needs nodeplane to run as root with CAP_SYS_ADMIN"
_CAP_SYS_ADMIN = 21


def mount_variables(mounts: Sequence[pb.Mount]) -> dict[bytes, bytes]:
    """Return variables such as `NODEPLANE_MOUNT_ETC_CONFIG=HOST_PATH`, valid with and without a mount namespace."""
    names = (
        (VARIABLE + re.sub(r"[^A-Za-z0-9]+", "_", m.container_path.strip("/")).upper(), m) for m in _relocated(mounts)
    )
    return {os.fsencode(name): os.fsencode(mount.host_path) for name, mount in names}


def isolation_spec(
    config: pb.ContainerConfig, pod: pb.PodSandboxConfig, image: Image | None, directory: str
) -> dict[str, Any] | None:
    """Return the fields of shim.isolation.Isolation; None without any namespace. Raises InvalidRequest."""
    namespaces, allowed = _requested_namespaces(pod), namespaces_allowed()
    context = config.linux.security_context
    readonly = context.readonly_rootfs
    requested = [*config.mounts, *_devices(config.devices)]
    mounts = _checked(requested) if image or readonly else _relocated(requested)
    if namespaces and not allowed:
        raise InvalidRequest(f"annotation {ISOLATION} {_NEEDS}")
    if image and not allowed:
        name = image.names[0] if image.names else image.id
        raise InvalidRequest(f'image "{name}" has a root of its own, which {_NEEDS}')
    if not allowed or not (mounts or namespaces or image or readonly or resolv_conf(pod)):
        return None
    places = [[m.host_path, m.container_path, m.readonly] for m in mounts]
    return {
        "mounts": [[f"{directory}/{RESOLV_FILE}", RESOLV_PATH, False], *places] if resolv_conf(pod) else places,
        "hostname": _hostname(pod) if UTS in namespaces or (image and not host_network(pod)) else "",
        "processes": PID in namespaces and context.namespace_options.pid == pb.CONTAINER,
        "root": {"image": image.root, "own": f"{directory}/{OWN_ROOT}"} if image else None,
        "readonly": readonly,
    }


def resolv_conf(pod: pb.PodSandboxConfig) -> str:
    """Return the content of the pod's own /etc/resolv.conf; empty if it uses the host's."""
    dns = pod.dns_config
    lines = [f"nameserver {server}" for server in dns.servers]
    lines += [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    return "".join(f"{line}\n" for line in lines)


def _devices(devices: Sequence[pb.Device]) -> list[pb.Mount]:
    """Return mounts for devices under another name; /dev is the host's, so others need none."""
    found = (pb.Mount(host_path=item.host_path, container_path=item.container_path) for item in devices)
    return [mount for mount in found if mount.host_path != mount.container_path]


def _requested_namespaces(pod: pb.PodSandboxConfig) -> set[str]:
    text = pod.annotations.get(ISOLATION, "")
    namespaces = {part.strip() for part in text.split(",")} - {"", "none"}
    if strange := sorted(namespaces - {PID, UTS}):
        raise InvalidRequest(f'annotation {ISOLATION}: "{strange[0]}" is none of {PID}, {UTS}')
    return namespaces


def _hostname(pod: pb.PodSandboxConfig) -> str:
    """Return the host name, cut to the kernel's limit."""
    return (pod.hostname or pod.metadata.name)[:63].rstrip("-.")


def _relocated(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    """Return the mounts whose path differs from their host path."""
    return _checked([m for m in mounts if os.path.normpath(m.container_path) != os.path.normpath(m.host_path)])


def _checked(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    for mount in mounts:
        if not mount.container_path.startswith("/") or os.path.normpath(mount.container_path) == "/":
            raise InvalidRequest(f'mount at "{mount.container_path}": that is no place below the root')
    return list(mounts)


@functools.cache
def namespaces_allowed() -> bool:
    """True for root with CAP_SYS_ADMIN."""
    if os.geteuid() != 0:
        return False
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(held, 16) >> _CAP_SYS_ADMIN & 1)
