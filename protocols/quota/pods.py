"""Resources of pods: what a pod requests as a whole, what a quota counts of it, and what it must specify."""

import time
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, cast

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.kube.pods import is_finished
from protocols.kube.resource_names import REQUESTS, is_extended, is_native
from protocols.quota.amounts import ONE, Amounts, greatest, parsed, total
from protocols.scheduling.requests import of_containers

COUNT = "count/pods"
COMPUTE = (
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage",
)  # fmt: skip
NAMES = frozenset((COUNT, "pods", *COMPUTE))
HUGE = "hugepages-"
MUST_SPECIFY = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""Resources that every container must specify under a quota of them."""
WHOLE = ("cpu", "memory")
"""Resources that spec.resources sets for the pod as a whole, besides huge pages."""


def covers(name: str) -> bool:
    """Return True if pods use the resource of this name in a quota."""
    return name in NAMES or name.startswith((HUGE, REQUESTS + HUGE)) or _of_extended(name)


def _of_extended(name: str) -> bool:
    return name.startswith(REQUESTS) and not is_native(name)


def pod_amounts(pod: Object, side: str) -> Amounts:
    """Return the `requests` or `limits` of a pod: of its containers or, where set, of the pod as a whole, and overhead.

    A container counts as the greater of its spec and its status, whose sizes differ during a resize.

    This is not protocols.scheduling.requests.pod_requests: quotas keep the format of quantities for their texts, count
    limits too, count no request that only a limit implies, and count an infeasible resize.
    """
    spec = pod.get("spec") or {}
    held = _allocated(pod, side)
    amounts = of_containers(cast("views.PodSpec", spec), lambda container: _amounts(container, side, held))
    return _with_overhead(spec, side, {**amounts, **whole_amounts(spec, side)})


def whole_amounts(spec: Object, side: str) -> Amounts:
    """Return what the pod sets for all its containers together."""
    given = parsed((spec.get("resources") or {}).get(side))
    return {name: amount for name, amount in given.items() if name in WHOLE or name.startswith(HUGE)}


def _with_overhead(spec: Object, side: str, amounts: Amounts) -> Amounts:
    overhead = parsed(spec.get("overhead"))
    if side == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in amounts}
    return total(amounts, overhead) if overhead else amounts


def _amounts(container: Mapping[str, Any], side: str, held: dict[str, Amounts]) -> Amounts:
    own = parsed((container.get("resources") or {}).get(side))
    other = held.get(str(container.get("name")))
    return greatest(own, other) if other else own


def _allocated(pod: Object, side: str) -> dict[str, Amounts]:
    status = pod.get("status") or {}
    allocated = {}
    for container_status in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        amounts = parsed((container_status.get("resources") or {}).get(side))
        if side == "requests":
            amounts = greatest(amounts, parsed(container_status.get("allocatedResources")))
        if amounts:
            allocated[str(container_status.get("name"))] = amounts
    return allocated


def pod_usage(pod: Object, now: float | None = None) -> Amounts:
    """Return what quotas count of a pod. A pod that has ended, or should have, counts as an object only."""
    result: Amounts = {COUNT: ONE}
    if has_ended(pod, time.time() if now is None else now):
        return result
    return {**result, **_compute_usage(pod_amounts(pod, "requests"), pod_amounts(pod, "limits"))}


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    result: Amounts = {"pods": ONE}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in requests:
            result[name] = result[REQUESTS + name] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(HUGE):
            result[name] = result[REQUESTS + name] = amount
        elif is_extended(name):
            result[REQUESTS + name] = amount
    return result


def has_ended(pod: Object, now: float) -> bool:
    """Return True for a pod in a terminal phase, or still there a grace period after its deletion was due."""
    if is_finished(pod):
        return True
    metadata = pod.get("metadata") or {}
    due, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not due or grace is None:
        return False
    try:
        return now > datetime.fromisoformat(str(due)).timestamp() + int(grace)
    except ValueError:
        return False


def missing(pod: Object, names: Collection[str]) -> str:
    """Return what containers must specify under a quota of these names, as upstream words it; empty if nothing."""
    spec = pod.get("spec") or {}
    whole = _compute_usage(whole_amounts(spec, "requests"), whole_amounts(spec, "limits"))
    wanted = [name for name in sorted(names) if name in MUST_SPECIFY and name not in whole]
    lacking: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())) if wanted else ():
        resources = container.get("resources") or {}
        own = _compute_usage(parsed(resources.get("requests")), parsed(resources.get("limits")))
        for name in wanted:
            if name not in own:
                lacking.setdefault(name, set()).add(str(container.get("name")))
    parts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(parts)}" if parts else ""
