"""Spoken by `health`: allocatedResourcesStatus of every pod that holds devices."""

import msgspec

OWNER = "health"

RESOURCE_STATUS = "resource-status"
"""State stream, key = pod uid, value = PodResourceStatus."""


class ResourceHealth(msgspec.Struct, frozen=True, omit_defaults=True):
    resourceID: str
    health: str
    message: str = ""


class ResourceStatus(msgspec.Struct, frozen=True):
    """JSON form = one element of allocatedResourcesStatus (KEP-4680)."""

    name: str
    resources: tuple[ResourceHealth, ...]
    """Sorted by resourceID."""


class PodResourceStatus(msgspec.Struct, frozen=True):
    uid: str
    containers: dict[str, tuple[ResourceStatus, ...]]
    """By container name; device plugins' entries by name, then claims in the container's order."""
    pod: tuple[ResourceStatus, ...] = ()
    """Of claims that no container names."""
    reported_ns: int = 0
    """When the oldest report that this shows and the one before did not was heard; 0 = it shows none."""
