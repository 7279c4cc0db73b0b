"""Which resources of a container belong to Kubernetes and which are extended. Source: upstream's core helpers."""

from functools import lru_cache

from protocols.kube.names import LABEL_LIMIT, SUBDOMAIN_LIMIT, qualified_faults

LONGEST = SUBDOMAIN_LIMIT + 1 + LABEL_LIMIT
"""Characters of the longest name, PREFIX/NAME."""
REQUESTS = "requests."
"""Prefix of a resource in a quota, and so of no extended resource."""

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource that a DeviceClass provides by its name alone."""


def is_native(name: str) -> bool:
    """Return True for a resource of Kubernetes: without a domain, or with `kubernetes.io/` anywhere in its name."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return True for DOMAIN/NAME of somebody else that is also a valid name in a quota, as `requests.DOMAIN/NAME`."""
    return len(name) <= LONGEST and _is_extended(name)


@lru_cache(maxsize=1024)
def _is_extended(name: str) -> bool:
    return not is_native(name) and not name.startswith(REQUESTS) and not qualified_faults(REQUESTS + name)
