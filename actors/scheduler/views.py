"""From API objects to what placement needs of them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from actors.scheduler.types import Amounts, NodeView, PodView, Taint
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import condition_true, key_of, labels_of, uid_of
from protocols.kube.quantity import NANO, parse_quantity


def amounts(quantities: Mapping[str, Any]) -> Amounts:
    """Unreadable quantities count as nothing: the API refuses them, so this is another server's leniency."""
    found: Amounts = {}
    for name, text in quantities.items():
        try:
            found[name] = parse_quantity(text).nanos
        except QuantityInvalid:
            continue
    return found


def added(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}


def larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """max(init containers, sum of app containers), each with the sidecars started before them; one of `pods`."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", []):
        own = _container(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, own)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, added(sidecars, own))
    apps = _sum(_container(container) for container in spec.get("containers", []))
    total = larger(peak, added(sidecars, apps))
    return added(added(total, amounts(spec.get("overhead", {}))), {"pods": NANO})


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources", {})
    return amounts({**resources.get("limits", {}), **resources.get("requests", {})})


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        total = added(total, part)
    return total


def pod_view(pod: Mapping[str, Any]) -> PodView:
    spec = pod.get("spec", {})
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    return PodView(
        uid=uid_of(pod),
        key=key_of(pod),
        requests=pod_requests(spec),
        node_selector=dict(spec.get("nodeSelector", {})),
        affinity_terms=tuple(required.get("nodeSelectorTerms", [])),
        tolerations=tuple(spec.get("tolerations", [])),
        claims=bool(spec.get("resourceClaims")),
    )


def node_view(node: Mapping[str, Any]) -> NodeView:
    spec = node.get("spec", {})
    taints = (Taint(t.get("key", ""), t.get("value", ""), t.get("effect", "")) for t in spec.get("taints", []))
    return NodeView(
        name=node["metadata"]["name"],
        labels=labels_of(node),
        taints=tuple(taints),
        allocatable=amounts(node.get("status", {}).get("allocatable", {})),
        ready=condition_true(node, "Ready"),
        unschedulable=bool(spec.get("unschedulable")),
    )


def wants_placement(pod: Mapping[str, Any], scheduler: str) -> bool:
    """Unbound, not ending, not gated, and asking for this scheduler."""
    spec = pod.get("spec", {})
    return (
        not spec.get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and spec.get("schedulerName", "default-scheduler") == scheduler
        and not spec.get("schedulingGates")
        and not is_over(pod)
    )


def is_over(pod: Mapping[str, Any]) -> bool:
    """A finished pod holds nothing of its node any more."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
