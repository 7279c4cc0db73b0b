"""Checks of the resource names and endpoints that plugins register."""

import re

from actors.devices.model.errors import RegistrationRejected
from protocols.wire.plugins import VERSION

_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX_LIMIT = 253
_NAME_LIMIT = 63


def is_extended_resource(name: str) -> bool:
    """Return True for DOMAIN/NAME outside of Kubernetes' own domains.

    It must also be valid as `requests.NAME` in a quota.
    """
    prefix, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    quota = f"requests.{prefix}"
    return len(quota) <= _PREFIX_LIMIT and bool(_PREFIX.fullmatch(quota)) and _is_name(rest)


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_LIMIT and bool(_NAME.fullmatch(text))


def check_registration(version: str, resource: str, endpoint: str) -> None:
    """Raise RegistrationRejected, with kubelet's message where it has one."""
    if version != VERSION:
        raise RegistrationRejected(
            f'requested API version "{version}" is not supported by kubelet. Supported version is ["{VERSION}"]'
        )
    check_resource(resource)
    if endpoint in ("", ".", "..", "kubelet.sock") or "/" in endpoint or "\0" in endpoint:
        raise RegistrationRejected(
            f'the endpoint "{endpoint}" is invalid: it must be the name of the plugin\'s socket in this directory'
        )


def check_resource(resource: str) -> None:
    """Raise RegistrationRejected unless it is an extended resource."""
    if not is_extended_resource(resource):
        raise RegistrationRejected(f'the ResourceName "{resource}" is invalid')
