"""What the kernel says of this machine, read once at start."""

import os
import platform
import socket
import uuid
from pathlib import Path

import msgspec

from protocols.files import write_atomic
from protocols.layout import Layout

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
NOWHERE = ("192.0.2.1", 9)
"""An address of no machine: connecting a datagram socket sends nothing, but picks our own address."""


class Machine(msgspec.Struct, frozen=True):
    hostname: str
    address: str
    cpus: int
    memory_kib: int
    storage_kib: int
    architecture: str
    kernel: str
    os_image: str
    machine_id: str
    boot_id: str
    local: bool = True
    """The node's own endpoint listens on loopback: only an API server of this machine reaches it."""
    instance: str = ""
    """Of this root, for ever: by it another node of the same name is told apart."""


def read_machine(layout: Layout, node_ip: str) -> Machine:
    """`node_ip`: where the node's own endpoint listens, if not on loopback."""
    storage = os.statvfs(layout.root)
    return Machine(
        hostname=socket.gethostname(),
        address=node_ip or own_address(),
        local=not node_ip,
        instance=instance_of(layout.node_id),
        cpus=os.cpu_count() or 1,
        memory_kib=_memory_kib(),
        storage_kib=storage.f_blocks * storage.f_frsize // 1024,
        architecture=ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
    )


def instance_of(path: Path) -> str:
    """What was made in this root's first life, or now. A disk that takes no write costs the name's protection only."""
    if known := _text(str(path)):
        return known
    made = str(uuid.uuid4())
    try:
        write_atomic(path, made.encode(), 0o600)
    except OSError:
        return ""
    return made


def own_address() -> str:
    """The address other machines would see; loopback where there is no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NOWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _memory_kib() -> int:
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    return 0


def _os_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
