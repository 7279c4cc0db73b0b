"""Which of the services a driver advertises are used. Pure."""

import re
from collections.abc import Sequence

from actors.devices.errors import RegistrationRefused
from protocols.wire.dra import DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1, NODE_HEALTH

SUPPORTED = (DRA_V1, DRA_V1BETA1)
HEALTH = (HEALTH_V1, HEALTH_V1ALPHA1, NODE_HEALTH)
"""Best first; one is used, however many are offered."""
LONGEST_NAME = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def choose_service(driver: str, endpoint: str, versions: Sequence[str]) -> str:
    """The first of the driver's own list that we know; raises RegistrationRefused in upstream's words."""
    if len(driver) > LONGEST_NAME or not _NAME.fullmatch(driver.lower()):
        raise RegistrationRefused(f'the driver name "{driver[:253]}" is invalid: it must be a DNS subdomain')
    where = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
    if not versions:
        raise RegistrationRefused(f"{where}: empty list of supported gRPC services (aka supported versions)")
    for version in versions:
        if version in SUPPORTED:
            return version
    raise RegistrationRefused(
        f"{where}: none of services supported by the plugin ({_listed(versions)}) are supported by the kubelet "
        f"({_listed(SUPPORTED)})"
    )


def choose_health(versions: Sequence[str]) -> str:
    """Empty when none is advertised."""
    return next((service for service in HEALTH if service in versions), "")


def _listed(versions: Sequence[str]) -> str:
    return "[" + " ".join(f'"{version[:64]}"' for version in versions[:16]) + "]"
