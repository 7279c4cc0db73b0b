"""Checks of what device plugins register, with kubelet's messages where it has one. Pure.

Each returns the fault as a text, empty for a value that kubelet accepts.
"""

from collections.abc import Sequence

from protocols.kube.resource_names import is_extended
from protocols.wire.plugins import VERSION

SHOWN, SHOWN_VERSIONS = 256, 16
"""Characters of a text, and versions, that a fault shows: clients of gRPC take 8 to 16 KiB of an error."""


def version_fault(version: str) -> str:
    """Check the API version of a registration; kubelet supports VERSION only."""
    if version == VERSION:
        return ""
    return f'requested API version "{version[:SHOWN]}" is not supported by kubelet. Supported version is ["{VERSION}"]'


def resource_fault(resource: str) -> str:
    """Check the resource name of a registration, which must be an extended resource."""
    return "" if is_extended(resource) else f'the ResourceName "{resource[:SHOWN]}" is invalid'


def registry_fault(resource: str, versions: Sequence[str]) -> str:
    """Check what a plugin names that is found by its socket in plugins_registry/, in kubelet's order."""
    if VERSION not in versions:
        shown = " ".join(version[:SHOWN] for version in versions[:SHOWN_VERSIONS])
        return f"manager version, {VERSION}, is not among plugin supported versions [{shown}]"
    fault = resource_fault(resource)
    return f"invalid name of device plugin socket: {fault}" if fault else ""


def endpoint_fault(endpoint: str) -> str:
    """Check the endpoint of a registration: a file name in kubelet's directory, other than kubelet's own."""
    if endpoint not in ("", ".", "..", "kubelet.sock") and "/" not in endpoint and "\0" not in endpoint:
        return ""
    shown = endpoint[:SHOWN]
    return f'the endpoint "{shown}" is invalid: it must be the name of the plugin\'s socket in this directory'
