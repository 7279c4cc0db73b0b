"""Checks of what device plugins register, with kubelet's messages where it has one. Pure.

Each returns the fault as a text, empty for a value that kubelet accepts.
"""

import re

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


def version_fault(version: str) -> str:
    if version == VERSION:
        return ""
    return f'requested API version "{version}" is not supported by kubelet. Supported version is ["{VERSION}"]'


def resource_fault(resource: str) -> str:
    return "" if is_extended_resource(resource) else f'the ResourceName "{resource}" is invalid'


def endpoint_fault(endpoint: str) -> str:
    if endpoint not in ("", ".", "..", "kubelet.sock") and "/" not in endpoint and "\0" not in endpoint:
        return ""
    return f'the endpoint "{endpoint}" is invalid: it must be the name of the plugin\'s socket in this directory'
