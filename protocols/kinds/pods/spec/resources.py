"""Requests and limits of containers and of whole pods. Messages equal upstream's."""

import functools
from collections.abc import Iterable
from typing import Any

from protocols.kinds.check.causes import MAX_SHOWN, Cause, duplicate, forbidden, invalid, required
from protocols.kinds.check.table import CACHED_LENGTH, Causes, Check, cached, causes_of, once, one_of
from protocols.kinds.check.values import label
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import items
from protocols.kube.quantity import Quantity, parse_quantity
from protocols.kube.resource_names import is_extended, is_native

CONTAINER = ("cpu", "memory", "ephemeral-storage")
OTHERS = (
    "storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "requests.cpu", "requests.memory",
    "requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
)  # fmt: skip
"""Standard names that are no container's."""
HUGE = "hugepages-"
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
STANDARD = "must be a standard resource type or fully qualified"
CONTAINERS_STANDARD = "must be a standard resource for containers"
EXTENDED = "doesn't follow extended resource name standard"


def standard_faults(name: str) -> Iterable[str]:
    """Return why there is no resource of this name."""
    is_known = "/" in name or name in (*CONTAINER, *OTHERS) or name.startswith(HUGE)
    return qualified_faults(name) or (() if is_known else (STANDARD,))


@cached
def name_faults(name: str) -> Iterable[str]:
    """Return why a container cannot have a resource of this name."""
    faults = standard_faults(name)
    if name in CONTAINER or name.startswith(HUGE) or (faults and STANDARD not in faults):
        return faults
    if "/" not in name:
        return (*faults, CONTAINERS_STANDARD)
    return () if is_native(name) or is_extended(name) else (EXTENDED,)


def _of_container(path: str, name: str, causes: Causes) -> None:
    causes.extend(invalid(path, name, fault) for fault in name_faults(name))


def resource_causes(path: str, container: Object, names: Check = _of_container) -> list[Cause]:
    """Validate requests and limits, whose names pass the check `names`. Invalid quantities are not compared."""
    resources = container.get("resources")
    if not resources:
        return []
    causes: Causes = []
    sides = resources.get("limits") or {}, resources.get("requests") or {}
    for side, values in zip(("limits", "requests"), sides, strict=True):
        for name, value in values.items():
            if not (len(name) <= CACHED_LENGTH and names is _of_container and _ordinary(name, value)):
                names(f"{path}.{side}[{name}]", name, causes)
                _entry(f"{path}.{side}[{name}]", name, value, causes)
    limits, requests = sides
    if limits or requests:
        _pairs(path, requests, limits, causes)
    return causes


@functools.lru_cache(maxsize=4096)
def _ordinary(name: str, value: Any) -> bool:
    """Return True for a common name with a valid quantity."""
    amount = _amount(value)
    return name in CONTAINER and amount is not None and amount.nanos >= 0


def _entry(where: str, name: str, value: Any, causes: Causes) -> None:
    amount = _amount(value)
    if amount is None:
        causes.append(invalid(where, value, QUANTITY_TEXT))
        return
    if amount.nanos < 0:
        causes.append(invalid(where, str(value), "must be greater than or equal to 0"))
    if is_extended(name) and not amount.is_integer:
        causes.append(invalid(where, str(value), "must be an integer"))
    if name.startswith(HUGE):
        _huge(where, name, amount, causes)


def _amount(value: Any) -> Quantity | None:
    try:
        return parse_quantity(value)
    except QuantityInvalid:
        return None


def _huge(path: str, name: str, amount: Quantity, causes: Causes) -> None:
    page = _amount(name.removeprefix(HUGE))
    if page is None or page.nanos <= 0 or amount.nanos % page.nanos or amount.nanos < 0:
        text = f"{amount} is not positive integer multiple of {name}"
        causes.append(invalid(path, str(amount), text))


def _pairs(path: str, requests: Object, limits: Object, causes: Causes) -> None:
    """Check requests against limits.

    Extended resources and huge pages cannot be overcommitted: request and limit must be equal. Other requests must not
    exceed the limit.
    """
    for name, value in requests.items():
        limit = limits.get(name)
        if limit == value:
            continue
        exact = name.startswith(HUGE) or not is_native(name)
        if limit is None:
            if exact:
                causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        else:
            _pair(f"{path}.requests", name, value, limit, exact, causes)
    names = {*limits, *requests}  # templates have limits that are no requests yet
    if names.isdisjoint(("cpu", "memory")) and any(HUGE in name for name in names):
        causes.append(forbidden(path, "HugePages require cpu or memory"))


def _pair(path: str, name: str, value: Any, limit: Any, exact: bool, causes: Causes) -> None:
    asked, most = _amount(value), _amount(limit)
    if asked is None or most is None:
        return
    if exact and asked != most:
        causes.append(invalid(path, str(value), f"must be equal to {name} limit of {limit}"))
    elif not exact and asked > most:
        causes.append(invalid(path, str(value), f"must be less than or equal to {name} limit of {limit}"))


class ClaimNames:
    """Names of a pod's claims, with their list for error texts: each wrong use of a claim shows it."""

    def __init__(self, pod: Object) -> None:
        self.names = {name for claim in items(pod, "spec", "resourceClaims") if (name := claim.get("name"))}
        listed = ", ".join(sorted(self.names))
        listed = f"{listed[:MAX_SHOWN]}..." if len(listed) > MAX_SHOWN else listed
        self._text = (
            f"must be one of the names in pod.spec.resourceClaims{f': {listed}' if listed else ' which is empty'}"
        )

    def use_causes(self, path: str, uses: list[Object]) -> list[Cause]:
        """Validate a container's uses of the claims."""
        causes: Causes = []
        seen, partly = set[str](), set[str]()
        for index, use in enumerate(uses):
            where, name, request = f"{path}[{index}]", use.get("name") or "", use.get("request") or ""
            if not name:
                causes.append(required(where))
                continue
            key = f"{name}/{request}" if request else name
            if name in seen or (not request and name in partly):
                causes.append(duplicate(where, name))
            else:
                label(f"{where}.request", request, causes)
                if key in seen:
                    causes.append(duplicate(where, key))
            seen.add(key)
            partly.add(name)
            if name not in self.names:
                causes.append(Cause(where, "FieldValueNotFound", f'Not found: "{name:.{MAX_SHOWN}}": {self._text}'))
        return causes


_resized = one_of("cpu", "memory")
_restart = one_of("NotRequired", "RestartContainer")


def resize_policy_causes(path: str, policies: list[Object], pod_policy: str) -> list[Cause]:
    """Validate resize policies: most of upstream's paths lack their indexes."""
    causes: Causes = []
    is_new = once()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        is_new(f"{path}[{index}]", name, causes)
        for value, check in ((name, _resized), (restart, _restart)):
            causes += causes_of(check, path, value) if value else [required(path)]
        if pod_policy == "Never" and restart != "NotRequired":
            causes.append(invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return causes
