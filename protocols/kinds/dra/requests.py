"""Validate the device requests, constraints and configuration of a claim."""

from typing import Any

from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.check.table import Causes, Check, Ordered, causes_of, each, together
from protocols.kinds.dra.names import class_name, full_name, label_name
from protocols.kinds.dra.selectors import CONFIGS, Budget, opaque, selectors
from protocols.kinds.dra.values import default_tolerations, tolerations
from protocols.kube.meta import Object
from protocols.kube.objects import rows

REQUESTS, ALTERNATIVES, CONSTRAINTS = 32, 8, 32
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
    """Set the defaults of a claim's requests and of their alternatives."""
    for part in (part for request in rows(devices.get("requests")) for part in parts(request)):
        if not part.get("allocationMode"):
            part["allocationMode"] = "ExactCount"
        if part["allocationMode"] == "ExactCount" and not part.get("count"):
            part.setdefault("count", 1)
        default_tolerations(part)


def devices_causes(path: str, devices: Object) -> list[Cause]:
    """Validate spec.devices."""
    references = request_references(request_names(devices))
    table = Ordered(
        requests=each(_request(Budget()), limit=REQUESTS, key=_name),
        constraints=each(together(Ordered(requests=references), _attribute), limit=CONSTRAINTS),
        config=each(Ordered("opaque", requests=references, opaque=opaque), limit=CONFIGS),
    )
    return causes_of(table, path, devices)


def _name(request: Object) -> str:
    return request.get("name") or ""


def request_names(devices: Object) -> set[str]:
    """Return the names of requests, and those of alternatives below them."""
    names = set()
    for request in rows(devices.get("requests")):
        names.add(name := _name(request))
        names |= {f"{name}/{sub.get('name')}" for sub in rows(request.get("firstAvailable"))}
    return names


def _request(budget: Budget) -> Check:
    part = together(
        Ordered("deviceClassName", deviceClassName=class_name, selectors=selectors(budget)),
        _count,
        Ordered(tolerations=tolerations),
    )
    alternative = together(Ordered("name", name=label_name), part)
    forms = Ordered(exactly=part, firstAvailable=each(alternative, limit=ALTERNATIVES, key=_name))

    def check(path: str, request: Object, causes: Causes) -> None:
        label_name(f"{path}.name", _name(request), causes)
        is_exact, has_alternatives = request.get("exactly") is not None, bool(request.get("firstAvailable"))
        if is_exact and has_alternatives:
            text = f"{ONE_FORM}, but multiple fields are set"
            causes.append(invalid(path, "{`exactly`, `firstAvailable`}", text))
        elif is_exact or has_alternatives:
            forms(path, request, causes)
        else:
            causes.append(required(path, ONE_FORM))

    return check


def _count(path: str, part: Object, causes: Causes) -> None:
    mode, count = part.get("allocationMode") or "", part.get("count") or 0
    if mode not in MODES:
        causes.append(unsupported(f"{path}.allocationMode", mode, MODES))
    elif mode == "All" and count:
        causes.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        causes.append(invalid(f"{path}.count", count, "must be greater than zero"))


def _attribute(path: str, constraint: Object, causes: Causes) -> None:
    given = [name for name in ("matchAttribute", "distinctAttribute") if constraint.get(name) is not None]
    if given:
        full_name(f"{path}.{given[0]}", constraint[given[0]], causes)
    else:
        causes.append(required(path, NO_CONSTRAINT))


def request_references(names: set[str]) -> Check:
    """Return a check of references to the requests `names` of a claim."""
    return each(request_reference(names), limit=REQUESTS, key=str)


def request_reference(names: set[str]) -> Check:
    """Return the check of a reference to a request, or to one of its alternatives."""

    def check(path: str, name: Any, causes: Causes) -> None:
        if name not in names:
            for part in str(name or "").split("/"):
                label_name(path, part, causes)
            causes.append(invalid(path, name, REFERENCE))

    return check
