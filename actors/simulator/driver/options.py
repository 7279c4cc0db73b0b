"""The options of a driver, and the devices that follow from them."""

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from actors.simulator.driver.script import DeviceSpec

GPU_MEMORY_GI = 16
_SPACE = uuid.UUID("0e3e7c1b-6a53-4c6b-9f7e-2d1f5b0c9a10")


class CardDevice(NamedTuple):
    """A device by name, and the card it is or belongs to."""

    name: str
    card: int
    """Number of the card that this is, or is a part of."""
    part: int = -1
    """-1: the whole card."""


@dataclass(frozen=True)
class DriverOptions:
    """Options of a driver; a script and flags of the command lead to them."""

    driver: str
    """A DNS name, e.g. gpu.example.com; devices are called after its first part."""
    devices: int
    node: str
    kubelet: Path
    """The kubelet directory, with plugins/ and plugins_registry/."""
    cdi: Path
    """Directory for CDI files; the runtime must read it."""
    kubeconfig: Path | None
    """None = the access of the pod that this runs in."""
    numa: int = 0
    """NUMA nodes to spread the devices over, in equal blocks; 0 = devices without."""
    partitions: int = 0
    """Number of partitions that each device can be allocated in, instead of as a whole."""
    shared: bool = False
    """Devices allow multiple allocations, each of a part of their memory."""
    attach: int = 0
    """Seconds from the allocation of a device until it is attached; 0 = devices without binding conditions."""
    health_file: Path | None = None
    """Lines `DEVICE HEALTH [MESSAGE]`; read again on each change."""
    health_timeout: int = 30
    """Seconds without a report after which the node considers the health of a device unknown."""
    listed: tuple[DeviceSpec, ...] = ()
    """Devices to offer instead of numbered ones."""
    shared_counters: tuple[dict[str, Any], ...] = ()
    """Counter sets of the listed devices."""
    versions: tuple[str, ...] = ()
    """Services that GetInfo names; empty = all but v1alpha1.NodeHealth."""
    node_health: bool = False
    """Serve v1alpha1.NodeHealth, also if `versions` does not name it."""
    instance: str = "0"
    """Distinguishes the sockets of drivers that run side by side, as during an update."""

    @property
    def attached(self) -> str:
        """Return the binding condition of devices that are attached late."""
        return f"{self.driver}/attached"

    @property
    def attach_failed(self) -> str:
        return f"{self.driver}/attach-failed"

    @property
    def cards(self) -> list[CardDevice]:
        stem = self.driver.partition(".")[0]
        return [CardDevice(f"{stem}-{index}", index) for index in range(self.devices)]

    def parts(self, card: CardDevice) -> list[CardDevice]:
        return [CardDevice(f"{card.name}-part-{part}", card.card, part) for part in range(self.partitions)]

    def all_devices(self) -> list[CardDevice]:
        if self.listed:
            return [CardDevice(spec.name, card) for card, spec in enumerate(self.listed)]
        return [device for card in self.cards for device in (card, *self.parts(card))]

    def numa_node(self, device: CardDevice) -> int | None:
        return device.card * self.numa // self.devices if self.numa else None

    def uuid(self, device: CardDevice) -> str:
        """Return an id that is the same at every start, as real hardware has one."""
        return str(uuid.uuid5(_SPACE, f"{self.node}/{self.driver}/{device.name}"))

    def variable(self, name: str) -> str:
        """Return the environment variable for a device in a container, e.g. GPU_EXAMPLE_COM_GPU_0."""
        return re.sub(r"[^A-Z0-9]", "_", f"{self.driver}_{name}".upper())

    @property
    def socket(self) -> Path:
        return self.kubelet / "plugins" / self.driver / f"dra-{self.instance}.sock"

    @property
    def registrar(self) -> Path:
        return self.kubelet / "plugins_registry" / f"{self.driver}-{self.instance}-reg.sock"
