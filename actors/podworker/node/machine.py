"""What the kernel says of this machine, read once at start."""

import os
import platform
import socket
from pathlib import Path

import msgspec

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


def read_machine(root: Path) -> Machine:
    storage = os.statvfs(root)
    return Machine(
        hostname=socket.gethostname(),
        address=own_address(),
        cpus=os.cpu_count() or 1,
        memory_kib=_memory_kib(),
        storage_kib=storage.f_blocks * storage.f_frsize // 1024,
        architecture=ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
    )


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
