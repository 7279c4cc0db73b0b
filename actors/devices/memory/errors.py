"""Why memory is not given; the texts are upstream's."""

from actors.devices.errors import CannotPlace


class NoMemory(CannotPlace):
    """Raised when no set of NUMA nodes has what a container asks for, or only one its hint forbids."""

    def __init__(self, why: str) -> None:
        super().__init__(f"[memorymanager] {why}")
