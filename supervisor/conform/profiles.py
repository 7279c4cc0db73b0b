"""Devices of the played node: names and numbers as programs of a vendor expect them."""

from typing import NamedTuple


class Profile(NamedTuple):
    resource: str
    device: str
    """Begin of the ids of devices."""
    pods: int
    """Pods that have a device from the begin."""


GENERIC = "generic"
PROFILES = {
    GENERIC: Profile("example.com/gpu", "gpu", 2),
    "nvidia": Profile("nvidia.com/gpu", "GPU", 8),
    "intel": Profile("gpu.intel.com/i915", "card", 4),
    "sriov": Profile("intel.com/intel_sriov_netdevice", "vf", 16),
}
