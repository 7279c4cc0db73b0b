"""Pod-level resources (spec.resources): defaults and validation. Messages equal upstream's."""

from collections.abc import Callable, Iterator
from typing import cast

from protocols.kinds import views
from protocols.kinds.check.causes import Cause, forbidden, invalid, unsupported
from protocols.kinds.check.table import Causes
from protocols.kinds.pods.spec.resources import HUGE, resource_causes, standard_faults
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.quota.amounts import Amounts, parsed, texts
from protocols.scheduling.requests import of_containers

NAMES = ("cpu", "memory")
SIDES = ("limits", "requests")


def _is_whole(name: str) -> bool:
    return name in NAMES or name.startswith(HUGE)


def _of_containers(spec: Object, side: str) -> Amounts:
    """Return the effective requests or limits of all containers together."""
    return of_containers(cast("views.PodSpec", spec), lambda container: parsed(at(container, "resources", side)))


def default_whole(spec: Object) -> None:
    """Default limits of huge pages to those of the containers, and requests to the containers' or else to the limit."""
    whole = spec.get("resources")
    limits, requests = (at(whole, side) or {} for side in SIDES)
    if not isinstance(whole, dict) or not isinstance(limits, dict) or not isinstance(requests, dict):
        return
    if limits or requests:
        limits = {**_chosen(spec, "limits", lambda name: name.startswith(HUGE) and name not in requests), **limits}
    if limits:
        own = {name: limit for name, limit in limits.items() if _is_whole(name)}
        whole.update(limits=limits, requests={**own, **_chosen(spec, "requests", NAMES.__contains__), **requests})


def _chosen(spec: Object, side: str, is_chosen: Callable[[str], bool]) -> dict[str, str]:
    return texts({name: amount for name, amount in _of_containers(spec, side).items() if is_chosen(name)})


def has_whole(pod: Object) -> bool:
    """Return True if a resource is requested or limited at the level of the pod."""
    return any(name in (at(pod, "spec", "resources", side) or {}) for side in SIDES for name in NAMES)


def whole_causes(spec: Object) -> list[Cause]:
    """Validate names, amounts and bounds."""
    path = "spec.resources"
    if text(spec, "os", "name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    causes = resource_causes(path, spec, _name)
    if items(spec, "resources", "claims"):
        causes.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    return [*causes, *_bounds(path, spec)]


def _name(path: str, name: str, causes: Causes) -> None:
    if faults := standard_faults(name):
        causes.extend(invalid(path, name, fault) for fault in faults)
    elif not _is_whole(name):
        causes.append(unsupported(path, name, ("cpu", HUGE, "memory")))


def _bounds(path: str, spec: Object) -> Iterator[Cause]:
    """Compare the pod with its containers."""
    limits, requests = (parsed(at(spec, "resources", side)) for side in SIDES)
    sums = {side: _of_containers(spec, side) for side in SIDES}
    sums["limits"] = {name: amount for name, amount in sums["limits"].items() if name.startswith(HUGE)}
    for side, own in (("requests", requests), ("limits", limits)):
        for name, together in sums[side].items():
            if name in own and together > own[name]:
                reason = f"must be greater than or equal to aggregate container {side} of {together}"
                yield invalid(f"{path}.{side}[{name}]", str(own[name]), reason)
    for index, container in enumerate(items(spec, "containers")):
        for name, amount in parsed(at(container, "resources", "limits")).items():
            if name in limits and amount > limits[name]:
                reason = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{path}.containers[{index}][{name}].limits", str(amount), reason)
