"""Read from the kernel what a plane depends on. Nothing is changed, and no call blocks for longer than a second."""

import os
import platform
import resource
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from protocols.errors import NodeplaneError
from protocols.process.namespaces import NAMESPACES, has_sys_admin, try_namespaces
from protocols.process.proc import read_text, sizes
from supervisor.base.options import PlaneOptions, default_root, layout_of
from supervisor.root.directories import check_directory
from supervisor.root.lock import supervisors

CONTROLLERS = ("cpu", "memory", "pids", "cpuset")
PROGRAMS = ("kubectl", "etcd", "crictl")
DEFAULTS = PlaneOptions()
PORTS = {"--port": DEFAULTS.port, "--metrics-port": DEFAULTS.metrics_port}
"""Ports that `up` without flags waits for or fails on."""


PROBE_S = 1.0
"""Deadline of a connection and of a call."""
KUBELET = "kubelet"
SOCKETS: Mapping[str, tuple[str, ...]] = {
    "containerd": ("/run/containerd/containerd.sock",),
    "CRI-O": ("/run/crio/crio.sock", "/var/run/crio/crio.sock"),
    "cri-dockerd": ("/run/cri-dockerd.sock",),
    KUBELET: ("/var/lib/kubelet/pod-resources/kubelet.sock",),
}
"""Paths by name, the usual one first."""


class Cgroups(msgspec.Struct, frozen=True):
    """`versions`: the mounted ones, "v1" and "v2". `writable`: controllers whose limits this user may set."""

    versions: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are in bytes, times in seconds."""

    system: str
    kernel: str
    python: str
    sqlite: str
    uid: int
    sys_admin: bool
    """The process has CAP_SYS_ADMIN."""
    namespaces: tuple[str, ...]
    """The part of NAMESPACES that the kernel has."""
    unshare_error: str
    """Empty where namespaces and mounts can be made; otherwise the kernel's reason."""
    cgroups: Cgroups
    shm: int
    """Size of /dev/shm; -1: not mounted."""
    descriptors: tuple[int, int]
    """Soft and hard limit of open files of a process."""
    inotify: tuple[int, int]
    """Limits of instances and watches of a user."""
    clock_resolution: float
    clocksource: str
    wall_time: float
    memory: int
    """Available memory."""
    root: str
    root_error: str
    """Reason why a plane cannot use the root."""
    disk: int
    """Free space below the root."""
    runs: bool
    """A plane runs below the root."""
    loopback_error: str
    ports_in_use: tuple[str, ...]
    """Flags of `up` whose default ports others have."""
    runtimes: dict[str, str]
    """Sockets that were found by name of the runtime, with its version or the reason why it does not answer."""
    programs: dict[str, str]


def machine(root: str = "") -> MachineFacts:
    """Read the facts; `root` is that of the plane, empty for the default one."""
    chosen = root or default_root()
    error, running = _root_state(chosen)
    return MachineFacts(
        system=platform.system(),
        kernel=platform.release(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        uid=os.geteuid(),
        sys_admin=has_sys_admin(),
        namespaces=tuple(name for name in NAMESPACES if Path("/proc/self/ns", name).is_symlink()),
        unshare_error=try_namespaces(),
        cgroups=cgroups(read_text("/proc/self/mounts"), read_text("/proc/self/cgroup")),
        shm=_shm_size(read_text("/proc/self/mounts")),
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE),
        inotify=(_inotify("max_user_instances"), _inotify("max_user_watches")),
        clock_resolution=time.get_clock_info("monotonic").resolution,
        clocksource=read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        wall_time=time.time(),
        memory=sizes("/proc/meminfo").get("MemAvailable", 0),
        root=chosen,
        root_error=error,
        disk=shutil.disk_usage(_existing(Path(chosen))).free,
        runs=running,
        loopback_error=_bind_error(0),
        ports_in_use=() if running else tuple(flag for flag, port in PORTS.items() if _bind_error(port)),
        runtimes=runtimes(),
        programs={name: path for name in PROGRAMS if (path := _program(name))},
    )


def _root_state(root: str) -> tuple[str, bool]:
    """Return why a plane cannot use the root, and whether one runs there."""
    try:
        layout = layout_of(PlaneOptions(root=root))
        check_directory(layout.root)
        return "", bool(supervisors(layout.run))
    except (NodeplaneError, OSError) as error:
        return str(error), False


def cgroups(mounts: str, membership: str) -> Cgroups:
    """Return the mounted versions, and the controllers of groups that this process may write to."""
    own = {name: path for _, names, path in _members(membership) for name in names.split(",")}
    versions, writable = set(), set()
    for fields in (line.split() for line in mounts.splitlines() if " cgroup" in line):
        place, kind, options = Path(fields[1]), fields[2], fields[3].split(",")
        names = set(options) if kind == "cgroup" else set(read_text(place / "cgroup.controllers").split())
        if not names & set(CONTROLLERS):
            continue
        versions.add("v1" if kind == "cgroup" else "v2")
        groups = [place / own.get(name, "/").lstrip("/") for name in (names if kind == "cgroup" else {""})]
        if any(os.access(group, os.W_OK) for group in (*groups, place)):
            writable |= names
    return Cgroups(tuple(sorted(versions)), tuple(name for name in CONTROLLERS if name in writable))


def _members(text: str) -> list[list[str]]:
    return [parts for line in text.splitlines() if len(parts := line.split(":", 2)) == 3]


def _shm_size(mounts: str) -> int:
    if not any(line.split()[1:2] == ["/dev/shm"] for line in mounts.splitlines()):
        return -1
    return shutil.disk_usage("/dev/shm").total


def _inotify(name: str) -> int:
    text = read_text(f"/proc/sys/fs/inotify/{name}")
    return int(text) if text.isdecimal() else 0


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())


def _bind_error(port: int) -> str:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _program(name: str) -> str | None:
    """Return its path: on PATH, or beside this interpreter."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def runtimes(sockets: Mapping[str, tuple[str, ...]] = SOCKETS) -> dict[str, str]:
    """Return the path of each socket that exists, with the version of the runtime or why it does not answer."""
    descriptions = {name: _describe(name, paths) for name, paths in sockets.items()}
    return {name: text for name, text in descriptions.items() if text}


def _describe(name: str, paths: tuple[str, ...]) -> str:
    for path in paths:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(PROBE_S)
                probe.connect(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{path} ({error.strerror or error})"
        return path if name == KUBELET else f"{path} ({_version(path)})"
    return ""


def _version(path: str) -> str:
    """Return name and version of a runtime, or why it has no CRI v1."""
    import grpc  # only where a runtime was found

    from protocols.wire import cri_pb2 as pb
    from protocols.wire.methods import CLIENT_OPTIONS

    with grpc.insecure_channel(f"unix:{path}", options=CLIENT_OPTIONS) as channel:
        call = channel.unary_unary(
            "/runtime.v1.RuntimeService/Version",
            request_serializer=pb.VersionRequest.SerializeToString,
            response_deserializer=pb.VersionResponse.FromString,
        )
        try:
            answer = call(pb.VersionRequest(version="v1"), timeout=PROBE_S)
        except grpc.RpcError as error:
            return f"no CRI v1: {error.code().name}"
    return f"{answer.runtime_name} {answer.runtime_version}, CRI {answer.runtime_api_version}"
