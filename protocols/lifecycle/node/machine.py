"""Facts about a machine that its Node object shows."""

import msgspec


class MachineInfo(msgspec.Struct, frozen=True):
    """A machine as its node reports it; sizes in KiB."""

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
    """The node endpoint listens on loopback: only an API server on this machine reaches it."""
    instance: str = ""
    """Identity of this root directory; distinguishes nodes that claim the same name."""
