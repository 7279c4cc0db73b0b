"""What a plugin is told at its start."""

import re
from dataclasses import dataclass
from pathlib import Path

HEALTHY = "Healthy"


@dataclass(frozen=True)
class PluginOptions:
    resource: str
    """DOMAIN/NAME, e.g. example.com/gpu; devices are called after NAME."""
    directory: Path
    """The device-plugins directory of the node: kubelet.sock is there, and our own socket."""
    health_file: Path | None = None
    """Lines `DEVICE HEALTH`; read again on each change."""
    pid: int = 0

    @property
    def name(self) -> str:
        return self.resource.rpartition("/")[2]

    @property
    def variable(self) -> str:
        """The environment variable a container finds its devices in: EXAMPLE_COM_GPU."""
        return re.sub(r"[^A-Z0-9]", "_", self.resource.upper())

    @property
    def endpoint(self) -> str:
        """Name of our socket. Holds the pid, so an old and a new plugin of one resource can run side by side."""
        return f"{re.sub(r'[^A-Za-z0-9.]', '-', self.resource)[:40]}-{self.pid}.sock"

    @property
    def socket(self) -> Path:
        return self.directory / self.endpoint

    @property
    def kubelet_socket(self) -> Path:
        return self.directory / "kubelet.sock"
