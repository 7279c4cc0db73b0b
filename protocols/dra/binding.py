"""Binding conditions of allocated devices (KEP-5007): a claim is ready, still waits, or has failed. Pure.

A device with `bindingConditions` is prepared after its allocation, by its driver or a controller. The pod is bound once
each condition is True in `status.devices`; one of `bindingFailureConditions` that is True ends the wait at once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from protocols.dra.pods import allocation_of, results_of
from protocols.kinds import views
from protocols.kube.errors import TimeInvalid
from protocols.kube.meta import name_of
from protocols.kube.times import parse_time

READY, WAITING, FAILED = "ready", "waiting", "failed"
TIMEOUT_S = 600.0
"""Upstream's default of DynamicResourcesArgs.bindingTimeout."""


class BindingVerdict(NamedTuple):
    """State of a claim's binding conditions: ready, waiting or failed."""

    state: str
    text: str = ""
    """Why it failed."""
    deadline: float | None = None
    """End of a wait in seconds since the epoch; None if the allocation has no time."""


def has_binding_conditions(claim: views.ResourceClaim) -> bool:
    """Return True if the claim has a device with binding conditions, be they met or not."""
    return any(_wanted(result) for result in results_of(claim))


def verdict(claim: views.ResourceClaim, now: float, timeout: float = TIMEOUT_S) -> BindingVerdict:
    """Judge an allocated claim; one that is not allocated waits. Failures are found before conditions not met."""
    for result in results_of(claim):
        if text := _failure(claim, result):
            return BindingVerdict(FAILED, text)
    if allocation_of(claim) is not None and not unmet(claim):
        return BindingVerdict(READY)
    deadline = _deadline(claim, timeout)
    if deadline is not None and now >= deadline:
        return BindingVerdict(FAILED, f"claim {name_of(claim)} binding timeout")
    return BindingVerdict(WAITING, "", deadline)


def unmet(claim: views.ResourceClaim) -> list[tuple[str, str]]:
    """Return the devices that are not ready, each with a condition that it lacks."""
    missing = ((result, _wanted(result) - _true(_conditions(claim, result))) for result in results_of(claim))
    return [(str(each.get("device")), name) for each, names in missing for name in sorted(names)]


def _wanted(result: Mapping[str, Any]) -> set[str]:
    return set(map(str, _rows(result.get("bindingConditions"))))


def _failure(claim: views.ResourceClaim, result: Mapping[str, Any]) -> str:
    failing = _rows(result.get("bindingFailureConditions")) if _wanted(result) else []
    for condition in _conditions(claim, result) if failing else ():
        if condition.get("type") in failing and condition.get("status") == "True":
            reason, message = condition.get("reason") or "", condition.get("message") or ""
            return f'claim {name_of(claim)} binding failed: reason={reason}, message="{message}"'
    return ""


def _true(conditions: list[views.Condition]) -> set[str]:
    return {str(condition.get("type")) for condition in conditions if condition.get("status") == "True"}


def _conditions(claim: views.ResourceClaim, result: Mapping[str, Any]) -> list[views.Condition]:
    """Return the conditions of an allocated device. Whatever has the wrong shape is left out."""
    devices: list[views.AllocatedDeviceStatus] = _rows((claim.get("status") or {}).get("devices"))
    mine = [device for device in devices if isinstance(device, dict) and allocated_key(device) == allocated_key(result)]
    conditions: list[views.Condition] = _rows(mine[0].get("conditions")) if mine else []
    return [condition for condition in conditions if isinstance(condition, dict)]


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def allocated_key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the same key for a result of an allocation and for its entry in `status.devices`; the driver is first."""
    return entry.get("driver") or "", entry.get("pool"), entry.get("device"), entry.get("shareID") or ""


def _deadline(claim: views.ResourceClaim, timeout: float) -> float | None:
    since = (allocation_of(claim) or {}).get("allocationTimestamp")
    try:
        return parse_time(str(since)) + timeout if since else None
    except TimeInvalid:
        return None
