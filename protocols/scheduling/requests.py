"""Resources that a pod requests: the sum of its containers, and what the scheduler counts."""

from collections.abc import Callable, Collection, Mapping
from operator import is_
from types import MappingProxyType
from typing import Any, TypeVar

from protocols.kinds import views
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import condition
from protocols.kube.quantity import NANO, Quantity, parse_quantity

Amounts = dict[str, int]
"""Nano-units by resource, as in protocols.kube.quantity; `pods` counts pods."""
Amount = TypeVar("Amount", int, Quantity)
UNSPECIFIED: Amounts = {"cpu": NANO // 10, "memory": 200 * 2**20 * NANO}
"""Upstream's assumption of a container that requests none: 100m and 200 MiB."""


def amounts(quantities: Mapping[str, Any]) -> Amounts:
    """Parse quantities. Invalid ones, which only another server admits, are skipped."""
    parsed: Amounts = {}
    for name, text in quantities.items():
        try:
            parsed[name] = parse_quantity(text).nanos
        except QuantityInvalid:
            continue
    return parsed


def add(total: dict[str, Amount], more: Mapping[str, Amount]) -> None:
    """Add to `total` in place: a copy for each container of a pod would be quadratic."""
    for name, amount in more.items():
        held = total.get(name)
        total[name] = amount if held is None else held + amount


def subtract(total: Amounts, less: Mapping[str, int]) -> None:
    """Subtract in place what was added before; a resource of which nothing is left goes, since pods name any."""
    for name, amount in less.items():
        total[name] = total.get(name, 0) - amount
        if not total[name]:
            del total[name]


def _raise(peak: dict[str, Amount], amounts: Mapping[str, Amount]) -> None:
    for name, amount in amounts.items():
        held = peak.get(name)
        peak[name] = amount if held is None else max(held, amount)


def of_containers(spec: views.PodSpec, own: Callable[[views.Container], Mapping[str, Amount]]) -> dict[str, Amount]:
    """Return max(init containers, sum of app containers), each with the sidecars started before them.

    `own` returns the amounts of one container.
    """
    running: dict[str, Amount] = {}
    """Sidecars so far, and app containers in the end."""
    peak: dict[str, Amount] = {}
    for container in spec.get("initContainers") or ():
        started = dict(own(container))
        if container.get("restartPolicy") == "Always":
            add(running, started)
            started = {name: running[name] for name in started}
        else:
            add(started, {name: running[name] for name in started if name in running})
        _raise(peak, started)
    for container in spec.get("containers") or ():
        add(running, own(container))
    _raise(peak, running)
    return peak


def pod_requests(spec: views.PodSpec, unspecified: Mapping[str, int] = MappingProxyType({})) -> Amounts:
    """Return the requests of a pod, with one of `pods`; `unspecified` are those of a container without.

    Pod-level requests override those of containers. Quotas count differently: protocols.quota.pods.pod_amounts.
    """
    whole = (spec.get("resources") or {}).get("requests") or {}
    total = of_containers(spec, lambda container: {**unspecified, **container_requests(container)})
    total.update(amounts(whole))
    add(total, amounts(spec.get("overhead") or {}))
    add(total, {"pods": NANO})
    return total


def container_requests(container: views.Container) -> Amounts:
    """Return requests in nano-units; where only a limit is given, it is the request, as upstream defaults it."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def with_resize(pod: views.Pod, spec: views.PodSpec) -> views.PodSpec:
    """Return the spec of a pod with what it counts until a resize is done, as upstream.

    Each resource counts with the most that a container requests, was allocated and has; without what it requests if the
    resize is infeasible.
    """
    status = pod.get("status") or {}
    pending = condition(pod, "PodResizePending") or {}
    wants = pending.get("reason") != "Infeasible"
    apps = _held(spec.get("containers"), status.get("containerStatuses"), wants)
    inits = _held(spec.get("initContainers"), status.get("initContainerStatuses"), wants)
    if apps is None and inits is None:
        return spec
    changed = spec.copy()
    if apps is not None:
        changed["containers"] = apps
    if inits is not None:
        changed["initContainers"] = inits
    return changed


def _held(
    containers: list[views.Container] | None, statuses: list[views.ContainerStatus] | None, wants: bool
) -> list[views.Container] | None:
    """Return the containers with what they hold; None if all hold what they request."""
    held = {entry.get("name"): _holdings(entry) for entry in statuses or ()}
    counted = [_with(each, held.get(each.get("name"), ()), wants) for each in containers or ()]
    return None if all(map(is_, counted, containers or ())) else counted


def _holdings(status: views.ContainerStatus) -> list[Mapping[str, str]]:
    """Return what a container was allocated, and what it has."""
    both = status.get("allocatedResources"), (status.get("resources") or {}).get("requests")
    return [held for held in both if held]


def _with(container: views.Container, holdings: Collection[Mapping[str, str]], wants: bool) -> views.Container:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    if all(held.items() <= asked.items() for held in holdings):
        return container
    counted, most = dict(asked), amounts(asked) if wants else {}
    for held in holdings:
        for name, amount in amounts(held).items():
            if name not in most or amount > most[name]:
                counted[name], most[name] = held[name], amount
    return {**container, "resources": {**resources, "requests": counted}}
