"""The options of a driver, and the devices that follow from them."""

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from actors.simulator.driver.script import DriverScript

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
    """The script of a driver, and its place on a node; devices are called after the first part of its name."""

    script: DriverScript
    """With the values of flags that override it."""
    node: str
    kubelet: Path
    """The kubelet directory, with plugins/ and plugins_registry/."""
    cdi: Path
    """Directory for CDI files; the runtime must read it."""
    kubeconfig: Path | None
    """None = the access of the pod that this runs in."""
    health_file: Path | None = None
    """Lines `DEVICE HEALTH [MESSAGE]`; read again on each change."""
    instance: str = "0"
    """Distinguishes the sockets of drivers that run side by side, as during an update."""

    @property
    def driver(self) -> str:
        """Return its name, a DNS name such as gpu.example.com."""
        return self.script.driver

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
        return [CardDevice(f"{stem}-{index}", index) for index in range(self.script.count)]

    def parts(self, card: CardDevice) -> list[CardDevice]:
        return [CardDevice(f"{card.name}-part-{part}", card.card, part) for part in range(self.script.partitions)]

    def all_devices(self) -> list[CardDevice]:
        if self.script.listed:
            return [CardDevice(spec.name, card) for card, spec in enumerate(self.script.listed)]
        return [device for card in self.cards for device in (card, *self.parts(card))]

    def numa_node(self, device: CardDevice) -> int | None:
        return device.card * self.script.numa // self.script.count if self.script.numa else None

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
