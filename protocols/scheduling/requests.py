"""Resources that a pod requests: the sum of its containers, and what the scheduler counts."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from protocols.kinds import views
from protocols.kube.errors import QuantityInvalid
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
    """Return the spec of a pod that is being resized.

    It counts what it has or what it requests, whichever is more; if the resize is infeasible, what it has.
    """
    status = pod.get("status") or {}
    resizing = [c for c in status.get("conditions") or () if str(c.get("type")).startswith("PodResize")]
    if not resizing:
        return spec
    wants = all(condition.get("reason") != "Infeasible" for condition in resizing)
    changed = spec.copy()
    if containers := spec.get("containers"):
        changed["containers"] = _held(containers, status.get("containerStatuses"), wants)
    if inits := spec.get("initContainers"):
        changed["initContainers"] = _held(inits, status.get("initContainerStatuses"), wants)
    return changed


def _held(
    containers: list[views.Container], statuses: list[views.ContainerStatus] | None, wants: bool
) -> list[views.Container]:
    held = {entry.get("name"): entry.get("allocatedResources") or {} for entry in statuses or ()}
    return [_with(container, held.get(container.get("name")) or {}, wants) for container in containers]


def _with(container: views.Container, held: Mapping[str, str], wants: bool) -> views.Container:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    have, want = amounts(held), amounts(asked)
    more = {name: text for name, text in held.items() if not wants or have.get(name, 0) > want.get(name, 0)}
    return {**container, "resources": {**resources, "requests": {**asked, **more}}}
