"""Resources that a pod requests, as the scheduler counts them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import NANO, parse_quantity

Amounts = dict[str, int]
"""Nano-units by resource, as in protocols.kube.quantity; `pods` counts pods."""
UNSPECIFIED: Amounts = {"cpu": NANO // 10, "memory": 200 * 2**20 * NANO}
"""Upstream's assumption of a container that requests none: 100m and 200 MiB."""


def amounts(quantities: Mapping[str, Any]) -> Amounts:
    """Parse quantities. Invalid ones, which only another server admits, are skipped."""
    found: Amounts = {}
    for name, text in quantities.items():
        try:
            found[name] = parse_quantity(text).nanos
        except QuantityInvalid:
            continue
    return found


def add(total: Amounts, more: Mapping[str, int]) -> None:
    """Add to `total` in place: a copy for each container of a pod would be quadratic."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def pod_requests(spec: Mapping[str, Any], unspecified: Mapping[str, int] = MappingProxyType({})) -> Amounts:
    """Return the requests of a pod, with one of `pods`; `unspecified` are those of a container without.

    That is max(init containers, sum of app containers), each with the sidecars started before them. Pod-level requests
    override those of containers.
    """
    running: Amounts = {}
    """Sidecars so far, and app containers in the end."""
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = {**unspecified, **container_requests(container)}
        if container.get("restartPolicy") == "Always":
            add(running, own)
            own = dict.fromkeys(own, 0)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, 0), running.get(name, 0) + amount)
    for container in spec.get("containers") or ():
        add(running, {**unspecified, **container_requests(container)})
    for name, amount in running.items():
        peak[name] = max(peak.get(name, 0), amount)
    whole = (spec.get("resources") or {}).get("requests") or {}
    total = {**peak, **amounts(whole)}  # pod-level requests win
    add(total, amounts(spec.get("overhead") or {}))
    add(total, {"pods": NANO})
    return total


def container_requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def with_resize(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of a pod that is being resized.

    It counts what it has or what it requests, whichever is more; if the resize is infeasible, what it has.
    """
    status = pod.get("status") or {}
    resizing = [c for c in status.get("conditions") or () if str(c.get("type")).startswith("PodResize")]
    if not resizing:
        return spec
    wants = all(condition.get("reason") != "Infeasible" for condition in resizing)
    lists = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
    changed = {}
    for spec_key, status_key in lists:
        held = {entry.get("name"): entry.get("allocatedResources") or {} for entry in status.get(status_key) or ()}
        changed[spec_key] = [_with(raw, held.get(raw.get("name")) or {}, wants) for raw in spec.get(spec_key) or ()]
    return {**spec, **changed}


def _with(container: Mapping[str, Any], held: Mapping[str, Any], wants: bool) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    have, want = amounts(held), amounts(asked)
    more = {name: text for name, text in held.items() if not wants or have.get(name, 0) > want.get(name, 0)}
    return {**container, "resources": {**resources, "requests": {**asked, **more}}}
