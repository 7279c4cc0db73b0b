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
    """By container name; entries sorted by name."""
