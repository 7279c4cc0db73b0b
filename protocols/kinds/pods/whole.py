"""Pod-level resources (spec.resources): defaults and validation."""

from collections.abc import Iterator

from protocols.kinds.check.causes import Cause, invalid, unsupported
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.quantity import Quantity, parse_quantity

NAMES = ("cpu", "memory")
HUGE = "hugepages-"
SIDES = ("limits", "requests")


def default_whole(spec: Object) -> None:
    """Default missing requests to the sum over the containers, or else to the limit."""
    whole = spec.get("resources")
    limits = at(whole, "limits")
    if not isinstance(whole, dict) or not isinstance(limits, dict) or not isinstance(whole.get("requests", {}), dict):
        return
    asked = {name: _sum(spec, "requests", name) or limit for name, limit in limits.items()}
    whole["requests"] = {**asked, **whole.get("requests", {})}


def has_whole(pod: Object) -> bool:
    """Return True if a resource is requested or limited at the level of the pod."""
    return any(name in (at(pod, "spec", "resources", side) or {}) for side in SIDES for name in NAMES)


def whole_causes(spec: Object) -> list[Cause]:
    """Validate names and bounds. Quantities must be syntactically valid."""
    return [*_names(spec), *_bounds(spec)]


def _names(spec: Object) -> Iterator[Cause]:
    for side in SIDES:
        for name in at(spec, "resources", side) or {}:
            if name not in NAMES and not name.startswith(HUGE):
                yield unsupported(f"spec.resources.{side}", name, ("cpu", HUGE, "memory"))


def _bounds(spec: Object) -> Iterator[Cause]:
    limits, requests = (at(spec, "resources", side) or {} for side in SIDES)
    for name, asked in requests.items():
        if name in limits and _nanos(asked) > _nanos(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid("spec.resources.requests", str(asked), text)
        together = _sum(spec, "requests", name)
        if _nanos(together) > _nanos(asked):
            text = f"must be greater than or equal to aggregate container requests of {together}"
            yield invalid(f"spec.resources.requests[{name}]", str(asked), text)
    for name, limit in limits.items():
        for index, container in enumerate(items(spec, "containers")):
            own = (at(container, "resources", "limits") or {}).get(name, "0")
            if _nanos(own) > _nanos(limit):
                text = f"must be less than or equal to pod limits of {limit}"
                yield invalid(f"spec.containers[{index}].resources.limits[{name}]", str(own), text)


def _sum(spec: Object, side: str, name: str) -> str:
    """Return the sum over app containers and sidecars, or an empty string for zero."""
    sidecars = [c for c in items(spec, "initContainers") if c.get("restartPolicy") == "Always"]
    amounts = [(at(c, "resources", side) or {}).get(name, "0") for c in [*items(spec, "containers"), *sidecars]]
    total = sum((_quantity(value) for value in amounts), Quantity(0))
    return str(total) if total.nanos else ""


def _quantity(value: object) -> Quantity:
    try:
        return parse_quantity(str(value))
    except QuantityInvalid:
        return Quantity(0)


def _nanos(value: object) -> int:
    return _quantity(value).nanos
