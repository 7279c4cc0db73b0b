"""Mounts and namespaces of a container, from its configuration.

Without CAP_SYS_ADMIN nothing can be mounted; then an environment variable per mount names the host path.
"""

import functools
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.runtime.model.containers import DeviceNode, Image
from actors.runtime.model.cri_messages import host_network
from actors.runtime.model.errors import InvalidRequest
from actors.runtime.shim.system import recursive_seal_supported
from protocols.process.namespaces import has_sys_admin, try_namespaces
from protocols.wire import cri_pb2 as pb

VARIABLE = "NODEPLANE_MOUNT_"
ISOLATION = "nodeplane.dev/isolation"
"""Pod annotation: namespaces (pid, uts) of its own for each container, separated by commas, or none; default both."""
PID, UTS, NONE = "pid", "uts", "none"
OWN_ROOT, SCRATCH = "root", "nodes"
"""Directories below a shim's: for the changes of a container to its image, and a mount point for device nodes."""
RESOLV_FILE, RESOLV_PATH = "resolv.conf", "/etc/resolv.conf"
"""File below a shim's directory, and its path in the container."""
_NEEDS = "needs nodeplane to run as root with CAP_SYS_ADMIN"


def mount_variables(mounts: Sequence[pb.Mount]) -> dict[bytes, bytes]:
    """Return variables such as `NODEPLANE_MOUNT_ETC_CONFIG=HOST_PATH`, valid with and without a mount namespace."""
    named = [mount for mount in mounts if _relocated(mount) and not mount.HasField("image")]
    names = ((VARIABLE + re.sub(r"[^A-Za-z0-9]+", "_", m.container_path.strip("/")).upper(), m) for m in named)
    return {os.fsencode(name): os.fsencode(mount.host_path) for name, mount in names}


class Surroundings(NamedTuple):
    """Facts about a container that its configuration does not have."""

    directory: str = ""
    """Directory of its shim."""
    nodes: tuple[DeviceNode, ...] = ()
    """Device nodes that the host lacks."""
    pid_of: int = 0
    """Process whose PID namespace it joins; 0: it gets its own, or the host's."""
    ipc_of: int = 0
    """Process whose IPC namespace it joins; 0: the host's."""
    views: tuple[tuple[str, str], ...] = ()
    """Its cgroups and their names below /sys/fs/cgroup."""


NOWHERE = Surroundings()


def isolation_spec(
    config: pb.ContainerConfig, pod: pb.PodSandboxConfig, image: Image | None = None, around: Surroundings = NOWHERE
) -> dict[str, Any] | None:
    """Return the fields of shim.isolation.Isolation; None without any namespace. Raises InvalidRequest."""
    namespaces, allowed = requested_namespaces(pod), namespaces_allowed()
    context = config.linux.security_context
    readonly = context.readonly_rootfs
    confined = image is not None and not context.privileged
    select = _checked if image or readonly else _needed
    mounts = [_place(mount, nodev=confined) for mount in select(config.mounts)]
    mounts += map(_place, select(_devices(config.devices, own=confined)))
    _permit(pod, config, image, around)
    if not allowed or not (mounts or namespaces or image or readonly or resolv_conf(pod) or around.nodes):
        return None
    return {
        "mounts": [*_resolver(pod, around), *mounts],
        "hostname": _hostname(pod) if UTS in namespaces or (image and not host_network(pod)) else "",
        "processes": PID in namespaces and context.namespace_options.pid == pb.CONTAINER,
        "pid_of": around.pid_of if PID in namespaces else 0,
        "ipc_of": around.ipc_of,
        "root": {"image": image.root, "own": f"{around.directory}/{OWN_ROOT}"} if image else None,
        "readonly": readonly,
        "privileged": context.privileged,
        "nodes": [[n.path, n.kind, n.major, n.minor, n.mode, n.uid, n.gid] for n in around.nodes],
        "masked": [] if context.privileged or not (namespaces or image) else list(context.masked_paths),
        "sealed": [] if context.privileged or not (namespaces or image) else list(context.readonly_paths),
        "views": [list(view) for view in around.views] if namespaces or image else [],
        "scratch": f"{around.directory}/{SCRATCH}",
    }


def mount_targets(config: pb.ContainerConfig) -> list[str]:
    """Return the paths at which a container on the host's files mounts something."""
    return [mount.container_path for mount in _different([*config.mounts, *_devices(config.devices)])]


def _permit(pod: pb.PodSandboxConfig, config: pb.ContainerConfig, image: Image | None, around: Surroundings) -> None:
    """Reject what needs namespaces where there are none. Raises InvalidRequest."""
    if namespaces_allowed():
        return
    if asked_namespaces(pod):
        raise InvalidRequest(f"annotation {ISOLATION} {_NEEDS}")
    if image:
        name = image.names[0] if image.names else image.id
        raise InvalidRequest(f'image "{name}" has a root of its own, which {_NEEDS}')
    if around.nodes:
        raise InvalidRequest(f'device node "{around.nodes[0].path}" is not on this host, and to make it {_NEEDS}')
    if any(mount.HasField("image") for mount in config.mounts):
        raise InvalidRequest(f"a volume of an image {_NEEDS}")


def _resolver(pod: pb.PodSandboxConfig, around: Surroundings) -> list[list[str | bool]]:
    return [[f"{around.directory}/{RESOLV_FILE}", RESOLV_PATH, False]] if resolv_conf(pod) else []


def _place(mount: pb.Mount, nodev: bool = False) -> list[str | bool]:
    """Return fields of shim.mounts.Mount; no program of an image's volume can be executed."""
    return [
        mount.host_path,
        mount.container_path,
        mount.readonly,
        mount.recursive_read_only,
        mount.HasField("image"),
        True,
        nodev,
    ]


def resolv_conf(pod: pb.PodSandboxConfig) -> str:
    """Return the content of the pod's own /etc/resolv.conf; empty if it uses the host's."""
    dns = pod.dns_config
    lines = [f"nameserver {server}" for server in dns.servers]
    lines += [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    return "".join(f"{line}\n" for line in lines)


def _devices(devices: Sequence[pb.Device], own: bool = False) -> list[pb.Mount]:
    """Return mounts for devices: all of them with a /dev of its own, else those under another name than the host's."""
    mounts = (pb.Mount(host_path=item.host_path, container_path=item.container_path) for item in devices)
    return [mount for mount in mounts if own or mount.host_path != mount.container_path]


def requested_namespaces(pod: pb.PodSandboxConfig) -> set[str]:
    """Return the namespaces of each container: those of Kubernetes where the runtime may, or the annotation's."""
    if not namespaces_allowed():
        return set()
    if ISOLATION in pod.annotations:
        return asked_namespaces(pod)
    return {PID} if host_network(pod) else {PID, UTS}


def asked_namespaces(pod: pb.PodSandboxConfig) -> set[str]:
    """Return the namespaces that the annotation names. Raises InvalidRequest."""
    text = pod.annotations.get(ISOLATION, "")
    namespaces = {part.strip() for part in text.split(",")} - {"", NONE}
    if strange := sorted(namespaces - {PID, UTS}):
        raise InvalidRequest(f'annotation {ISOLATION}: "{strange[0]}" is none of {PID}, {UTS}, {NONE}')
    return namespaces


def _hostname(pod: pb.PodSandboxConfig) -> str:
    """Return the host name, cut to the kernel's limit."""
    return (pod.hostname or pod.metadata.name)[:64].rstrip("-.")


def _needed(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    """Return the mounts that differ from what is at their path on the host."""
    return _checked(_different(mounts))


def _different(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    return [mount for mount in mounts if _relocated(mount) or mount.readonly]


def _relocated(mount: pb.Mount) -> bool:
    return os.path.normpath(mount.container_path) != os.path.normpath(mount.host_path)


def _checked(mounts: Sequence[pb.Mount]) -> list[pb.Mount]:
    for mount in mounts:
        if not mount.container_path.startswith("/") or os.path.normpath(mount.container_path) == "/":
            raise InvalidRequest(f'mount at "{mount.container_path}": that is no place below the root')
        if mount.recursive_read_only:
            _check_recursive(mount)
    return list(mounts)


def _check_recursive(mount: pb.Mount) -> None:
    where = f'mount at "{mount.container_path}": recursive_read_only'
    if not mount.readonly:
        raise InvalidRequest(f"{where} needs readonly")
    if mount.propagation != pb.PROPAGATION_PRIVATE:
        raise InvalidRequest(f"{where} needs private propagation")
    if not recursive_read_only():
        raise InvalidRequest(f"{where} needs Linux 5.12 and nodeplane to run as root with CAP_SYS_ADMIN")


@functools.cache
def recursive_read_only() -> bool:
    """Return True if mounts below a read-only mount can be made read-only too."""
    return namespaces_allowed() and recursive_seal_supported()


@functools.cache
def namespaces_allowed() -> bool:
    """Return True for root with CAP_SYS_ADMIN, unless a security module denies mounts to root."""
    return os.geteuid() == 0 and has_sys_admin() and not try_namespaces()
