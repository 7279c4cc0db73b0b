"""Validate names and lists in resource.k8s.io. Messages equal upstream's.

Elements of a list over its limit are not validated.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, invalid, required, too_long, too_many
from protocols.kube.meta import Object
from protocols.kube.names import (
    LABEL,
    LABEL_TEXT,
    QUALIFIED,
    QUALIFIED_TEXT,
    SUBDOMAIN,
    SUBDOMAIN_TEXT,
    VALUE_TEXT,
    subdomain_faults,
)

Check = Callable[[str, Any], list[Cause]]


def each(path: str, values: Any, limit: int, check: Check, key: Callable[[Any], Any] | None = None) -> list[Cause]:
    """Validate each element; with `key`, elements must differ by it."""
    if not isinstance(values, list):
        return []
    if len(values) > limit:
        return [too_many(path, len(values), limit)]
    causes = [cause for index, value in enumerate(values) for cause in check(f"{path}[{index}]", value)]
    return causes + (repeated(path, map(key, values)) if key else [])


def repeated(path: str, keys: Iterable[Any]) -> list[Cause]:
    seen, causes = set(), []
    for index, key in enumerate(keys):
        if key in seen:
            causes.append(duplicate(f"{path}[{index}]", key))
        seen.add(key)
    return causes


def repeated_names(path: str, values: Any) -> list[Cause]:
    """Report duplicate names at the name field of the later element."""
    found = repeated(path, [value.get("name") for value in rows(values)])
    return [cause._replace(field=f"{cause.field}.name") for cause in found]


def table(value: Any) -> Object:
    """Return the value if it is a map, else an empty map."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


DRIVER, POOL, ID, LABEL_LENGTH, SUBDOMAIN_LENGTH = 63, 253, 32, 63, 253
KEY_SHOWN = DRIVER + 1 + ID
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


def driver_causes(path: str, name: str) -> list[Cause]:
    """Validate a driver name; case is ignored."""
    if not name:
        return [required(path)]
    causes = [too_long(path, DRIVER)] if len(name) > DRIVER else []
    return causes + [invalid(path, name.lower(), fault) for fault in subdomain_faults(name.lower())]


def pool_causes(path: str, name: str) -> list[Cause]:
    """Validate a pool name: subdomains separated by slashes."""
    if not name:
        return [required(path)]
    causes = [too_long(path, POOL)] if len(name) > POOL else []
    return causes + [invalid(path, part, fault) for part in name.split("/") for fault in subdomain_faults(part)]


def label_causes(path: str, name: str) -> list[Cause]:
    """Validate the name of a device, request, counter set or counter."""
    if len(name) > LABEL_LENGTH:
        return [invalid(path, name, f"must be no more than {LABEL_LENGTH} characters")]
    return [] if LABEL.fullmatch(name) else [invalid(path, name, LABEL_TEXT)]


def class_causes(path: str, name: str) -> list[Cause]:
    if not name:
        return [required(path)]
    if len(name) > SUBDOMAIN_LENGTH:
        return [invalid(path, name, f"must be no more than {SUBDOMAIN_LENGTH} characters")]
    return [] if SUBDOMAIN.fullmatch(name) else [invalid(path, name, SUBDOMAIN_TEXT)]


def qualified_causes(path: str, name: str) -> list[Cause]:
    """Validate `id` or `domain/id`: keys of attributes and capacities in slices. Upstream takes more slashes."""
    if name.count("/") > 1:
        return []
    domain, slash, own = name.rpartition("/")
    causes = []
    if slash:
        causes += driver_causes(path, domain) if domain else [invalid(path, "", "the domain must not be empty")]
    if not own:
        return [*causes, invalid(path, own, "the name must not be empty" if slash else C_TEXT)]
    if len(own) > ID:
        return [*causes, too_long(path, ID)]
    return causes if C_IDENTIFIER.fullmatch(own) else [*causes, invalid(path, own, C_TEXT)]


def full_causes(path: str, name: str) -> list[Cause]:
    """Validate `domain/id`, as constraints and patches require."""
    if not name:
        return [required(path, NO_DOMAIN)]
    return qualified_causes(path, name) if name.count("/") == 1 else [invalid(path, name, NO_DOMAIN)]


def label_key_causes(path: str, key: str) -> list[Cause]:
    """Validate keys of taints and tolerations, and condition names."""
    prefix, slash, own = key.rpartition("/")
    if slash and not SUBDOMAIN.fullmatch(prefix):
        return [invalid(path, key, f"prefix part {SUBDOMAIN_TEXT}" if prefix else "prefix part must be non-empty")]
    if not own:
        return [invalid(path, key, "name part must be non-empty"), invalid(path, key, QUALIFIED_TEXT)]
    if len(own) > LABEL_LENGTH:
        return [invalid(path, key, f"name part must be no more than {LABEL_LENGTH} characters")]
    return [] if QUALIFIED.fullmatch(own) else [invalid(path, key, QUALIFIED_TEXT)]


def label_value_causes(path: str, value: str) -> list[Cause]:
    if len(value) > LABEL_LENGTH:
        return [invalid(path, value, f"must be no more than {LABEL_LENGTH} characters")]
    return [] if not value or QUALIFIED.fullmatch(value) else [invalid(path, value, VALUE_TEXT)]
