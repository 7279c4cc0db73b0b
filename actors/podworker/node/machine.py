"""Facts about this machine, read from the kernel once at start."""

import os
import platform
import socket
import uuid
from pathlib import Path

from protocols.lifecycle.node.status import MachineInfo
from protocols.process.files import write_atomic
from protocols.process.layout import Layout
from protocols.process.proc import boot_id, read_text, sizes

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
NOWHERE = ("192.0.2.1", 9)
"""TEST-NET address: connecting a datagram socket to it sends nothing but selects the local address."""


def read_machine(layout: Layout, node_ip: str) -> MachineInfo:
    """Read the facts about this machine. `node_ip`: address of the node endpoint, if not loopback."""
    storage = os.statvfs(layout.root)
    return MachineInfo(
        address=node_ip or own_address(),
        local=not node_ip,
        instance=instance_of(layout.node_id),
        cpus=os.cpu_count() or 1,
        memory_kib=sizes("/proc/meminfo").get("MemTotal", 0) // 1024,
        storage_kib=storage.f_blocks * storage.f_frsize // 1024,
        architecture=ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=read_text("/etc/machine-id"),
        boot_id=boot_id(),
    )


def instance_of(path: Path) -> str:
    """Return the root's identity, created on first use. Empty if it cannot be written: then names are not protected."""
    if known := read_text(path):
        return known
    identity = str(uuid.uuid4())
    try:
        write_atomic(path, identity.encode(), 0o600)
    except OSError:
        return ""
    return identity


def own_address() -> str:
    """Return the address that other machines would see; loopback without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NOWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def huge_page_sizes() -> tuple[int, ...]:
    """Return the sizes of huge pages that the kernel knows, in bytes."""
    names = (path.name for path in Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB"))
    return tuple(sorted(int(name.removeprefix("hugepages-").removesuffix("kB")) * 1024 for name in names))


def has_unified_cgroups() -> bool:
    """Return True with version 2 of control groups alone."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def _os_image() -> str:
    for line in read_text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"
