"""What a plugin is told at its start, and the devices that follow from it."""

import re
from dataclasses import dataclass
from pathlib import Path

HEALTHY = "Healthy"


@dataclass(frozen=True)
class PluginOptions:
    resource: str
    """DOMAIN/NAME, e.g. example.com/gpu; devices are called after NAME."""
    devices: int
    numa: int
    """NUMA nodes to spread the devices over, in equal blocks; 0 = devices without topology."""
    directory: Path
    """The device-plugins directory of the node: kubelet.sock is there, and our own socket."""
    health_file: Path | None = None
    """Lines `DEVICE HEALTH`; read again on each change."""
    pid: int = 0

    @property
    def device_ids(self) -> list[str]:
        name = self.resource.rpartition("/")[2]
        return [f"{name}-{index}" for index in range(self.devices)]

    def numa_node(self, index: int) -> int | None:
        return index * self.numa // self.devices if self.numa else None

    @property
    def variable(self) -> str:
        """The environment variable a container finds its devices in: EXAMPLE_COM_GPU."""
        return re.sub(r"[^A-Z0-9]", "_", self.resource.upper())

    @property
    def endpoint(self) -> str:
        """Name of our socket. Holds the pid, so an old and a new plugin of one resource can run side by side."""
        return f"{re.sub(r'[^A-Za-z0-9.]', '-', self.resource)}-{self.pid}.sock"

    @property
    def socket(self) -> Path:
        return self.directory / self.endpoint

    @property
    def kubelet_socket(self) -> Path:
        return self.directory / "kubelet.sock"
