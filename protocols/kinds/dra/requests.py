"""Validate the device requests, constraints and configuration of a claim."""

from typing import Any

from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.dra.names import (
    class_causes,
    each,
    full_causes,
    label_causes,
    repeated,
    rows,
    table,
)
from protocols.kinds.dra.selectors import Budget, opaque_causes, selectors_causes
from protocols.kinds.dra.values import default_tolerations, tolerations_causes
from protocols.kube.meta import Object

REQUESTS, ALTERNATIVES, CONSTRAINTS, CONFIGS = 32, 8, 32, 32
MODES = ("All", "ExactCount")
ONE_FORM = "exactly one of `exactly` or `firstAvailable` is required"
NO_CONSTRAINT = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
"""Upstream's text, although none is set; of two that are set it takes the first."""
REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def parts(request: Object) -> list[Object]:
    """Return the exact request or its alternatives."""
    exactly = request.get("exactly")
    return ([exactly] if isinstance(exactly, dict) else []) + rows(request.get("firstAvailable"))


def default_devices(devices: Object) -> None:
    for part in (part for request in rows(devices.get("requests")) for part in parts(request)):
        if not part.get("allocationMode"):
            part["allocationMode"] = "ExactCount"
        if part["allocationMode"] == "ExactCount" and not part.get("count"):
            part.setdefault("count", 1)
        default_tolerations(part)


def devices_causes(path: str, devices: Object) -> list[Cause]:
    """Validate spec.devices."""
    requests, budget = devices.get("requests"), Budget()
    names = _names(requests)
    causes = each(
        f"{path}.requests", requests, REQUESTS, lambda at, value: _request_causes(at, table(value), budget)
    ) + _twice(f"{path}.requests", requests, REQUESTS)
    causes += each(
        f"{path}.constraints",
        devices.get("constraints"),
        CONSTRAINTS,
        lambda at, value: _constraint_causes(at, table(value), names),
    )
    return causes + each(
        f"{path}.config",
        devices.get("config"),
        CONFIGS,
        lambda at, value: (
            references_causes(f"{at}.requests", table(value).get("requests"), names) + opaque_causes(at, value)
        ),
    )


def _names(requests: Any) -> set[str]:
    found = set()
    for request in rows(requests):
        name = request.get("name") or ""
        found.add(name)
        found |= {f"{name}/{sub.get('name')}" for sub in rows(request.get("firstAvailable"))}
    return found


def _twice(path: str, values: Any, limit: int) -> list[Cause]:
    names = [value.get("name") or "" for value in rows(values)]
    return repeated(path, names) if len(names) <= limit else []


def _request_causes(path: str, request: Object, budget: Budget) -> list[Cause]:
    causes = label_causes(f"{path}.name", request.get("name") or "")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if not isinstance(exactly, dict) and not alternatives:
        return [*causes, required(path, ONE_FORM)]
    if isinstance(exactly, dict) and alternatives:
        text = f"{ONE_FORM}, but multiple fields are set"
        return [*causes, invalid(path, "{`exactly`, `firstAvailable`}", text)]
    if isinstance(exactly, dict):
        causes += _part_causes(f"{path}.exactly", exactly, budget)
    causes += each(
        f"{path}.firstAvailable",
        alternatives,
        ALTERNATIVES,
        lambda at, value: (
            label_causes(f"{at}.name", table(value).get("name") or "") + _part_causes(at, table(value), budget)
        ),
    )
    return causes + _twice(f"{path}.firstAvailable", alternatives, ALTERNATIVES)


def _part_causes(path: str, part: Object, budget: Budget) -> list[Cause]:
    causes = class_causes(f"{path}.deviceClassName", part.get("deviceClassName") or "")
    causes += selectors_causes(f"{path}.selectors", part.get("selectors"), budget)
    causes += _count_causes(path, part.get("allocationMode") or "", part.get("count") or 0)
    return causes + tolerations_causes(f"{path}.tolerations", part.get("tolerations"))


def _count_causes(path: str, mode: str, count: int) -> list[Cause]:
    if mode == "All":
        text = "must not be specified when allocationMode is 'All'"
        return [invalid(f"{path}.count", count, text)] if count else []
    if mode == "ExactCount":
        return [] if count > 0 else [invalid(f"{path}.count", count, "must be greater than zero")]
    return [unsupported(f"{path}.allocationMode", mode, MODES)]


def _constraint_causes(path: str, constraint: Object, names: set[str]) -> list[Cause]:
    causes = references_causes(f"{path}.requests", constraint.get("requests"), names)
    given = [name for name in ("matchAttribute", "distinctAttribute") if constraint.get(name) is not None]
    if not given:
        return [*causes, required(path, NO_CONSTRAINT)]
    return causes + full_causes(f"{path}.{given[0]}", constraint[given[0]])


def references_causes(path: str, references: Any, names: set[str]) -> list[Cause]:
    return each(path, references, REQUESTS, lambda at, name: reference_causes(at, name, names), str)


def reference_causes(path: str, name: Any, names: set[str]) -> list[Cause]:
    """Validate a reference to a request, or to one of its alternatives."""
    if name in names:
        return []
    parts = [cause for part in str(name or "").split("/") for cause in label_causes(path, part)]
    return [*parts, invalid(path, name, REFERENCE)]
