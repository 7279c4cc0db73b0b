"""Names and numbers of devices by vendor: those that an agent is shown, and those that a plugin is to offer."""

from typing import NamedTuple


class Profile(NamedTuple):
    """A vendor's resource and the devices of a node."""

    resource: str
    device: str
    """Begin of the ids of devices."""
    pods: int
    """Devices; each is a pod's from the begin where pods are played."""


GENERIC = "generic"
PROFILES = {
    GENERIC: Profile("example.com/gpu", "gpu", 2),
    "nvidia": Profile("nvidia.com/gpu", "GPU", 8),
    "intel": Profile("gpu.intel.com/i915", "card", 4),
    "sriov": Profile("intel.com/intel_sriov_netdevice", "0000:", 16),
}
