"""Checks of the resource names and endpoints that plugins register."""

from actors.devices.model.errors import RegistrationRejected
from protocols.wire.plugin_names import endpoint_fault, resource_fault, version_fault


def check_registration(version: str, resource: str, endpoint: str) -> None:
    """Raise RegistrationRejected, with kubelet's message where it has one."""
    if fault := version_fault(version) or resource_fault(resource) or endpoint_fault(endpoint):
        raise RegistrationRejected(fault)
