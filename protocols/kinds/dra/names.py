"""Checks of names in resource.k8s.io. Messages equal upstream's."""

import re

from protocols.kinds.check.causes import invalid, required, too_long
from protocols.kinds.check.table import Causes, needed, texts
from protocols.kinds.check.values import DRIVER_MAX, driver_name, subdomain
from protocols.kube.names import label_faults, subdomain_faults

POOL, ID = 253, 32
KEY_SHOWN = DRIVER_MAX + 1 + ID
C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
C_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
NO_DOMAIN = "a fully qualified name must be a domain and a name separated by a slash"


def keyed(path: str, key: str) -> str:
    """Return a path such as `spec.devices[0].attributes[dom/id]`; long keys are shortened in the middle."""
    if len(key) > KEY_SHOWN:
        half = (KEY_SHOWN - 3) // 2
        key = f"{key[:half]}...{key[-half:]}"
    return f"{path}[{key}]"


def _pool(path: str, name: str, causes: Causes) -> None:
    """Check a pool name: subdomains separated by slashes."""
    if len(name) > POOL:
        causes.append(too_long(path, POOL))
    causes.extend(invalid(path, part, fault) for part in name.split("/") for fault in subdomain_faults(part))


pool_name, class_name = needed(_pool), needed(subdomain)
label_name = texts(label_faults, empty=True)
"""Names of devices, requests, counter sets and counters."""
PLACE = {"driver": driver_name, "pool": pool_name, "device": label_name}
"""Fields that name a device."""


def qualified_name(path: str, name: str, causes: Causes) -> None:
    """Check `id` or `domain/id`: keys of attributes and capacities in slices. Upstream takes more slashes."""
    if name.count("/") > 1:
        return
    domain, slash, own = name.rpartition("/")
    if slash and domain:
        driver_name(path, domain, causes)
    elif slash:
        causes.append(invalid(path, "", "the domain must not be empty"))
    if slash and not own:
        causes.append(invalid(path, own, "the name must not be empty"))
        return
    if len(own) > ID:
        causes.append(too_long(path, ID))
    if not C_IDENTIFIER.fullmatch(own):
        causes.append(invalid(path, own, C_TEXT))


def full_name(path: str, name: str, causes: Causes) -> None:
    """Check `domain/id`, as constraints and patches require."""
    if not name:
        causes.append(required(path, NO_DOMAIN))
        return
    qualified_name(path, name, causes)
    if name.count("/") != 1:
        causes.append(invalid(path, name, NO_DOMAIN))
