"""The parts of Pods and Nodes that scheduling needs. Pure; a wrong shape raises ObjectUnreadable, nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.scheduler.errors import ObjectUnreadable
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import condition_true, key_of, labels_of, terminating, uid_of
from protocols.kube.quantity import NANO, parse_quantity

Amounts = dict[str, int]
"""Nano-units by resource, as in protocols.kube.quantity; `pods` counts pods."""


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class NodeView:
    """Scheduling-relevant part of a Node."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    ready: bool
    unschedulable: bool


@dataclass(frozen=True)
class PodView:
    """Scheduling-relevant part of a Pod."""

    uid: str
    key: str
    """namespace/name."""
    requests: Amounts
    node_selector: dict[str, str]
    affinity_terms: tuple[dict[str, Any], ...]
    """nodeSelectorTerms of required node affinity, one of which must match; empty = no requirement."""
    tolerations: tuple[dict[str, Any], ...]
    claims: bool
    """True if the pod references resource claims."""


@dataclass
class NodeLoad:
    """A node, and the requests of the pods on it."""

    view: NodeView
    used: Amounts = field(default_factory=dict)


def amounts(quantities: Mapping[str, Any]) -> Amounts:
    """Parse quantities. Invalid ones, which only another server admits, are skipped."""
    found: Amounts = {}
    for name, text in quantities.items():
        try:
            found[name] = parse_quantity(text).nanos
        except QuantityInvalid:
            continue
    return found


def add(total: Amounts, more: Amounts) -> None:
    """Add to `total` in place: a copy for each container of a pod would be quadratic."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return the requests of a pod, with one of `pods`.

    That is max(init containers, sum of app containers), each with the sidecars started before them. Pod-level requests
    override those of containers.
    """
    running: Amounts = {}
    """Sidecars so far, and app containers in the end."""
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container(container)
        if container.get("restartPolicy") == "Always":
            add(running, own)
            own = dict.fromkeys(own, 0)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, 0), running.get(name, 0) + amount)
    for container in spec.get("containers") or ():
        add(running, _container(container))
    for name, amount in running.items():
        peak[name] = max(peak.get(name, 0), amount)
    whole = (spec.get("resources") or {}).get("requests") or {}
    total = {**peak, **amounts(whole)}  # pod-level requests win
    add(total, amounts(spec.get("overhead") or {}))
    add(total, {"pods": NANO})
    return total


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def pod_view(pod: Mapping[str, Any]) -> PodView:
    try:
        return _pod_view(pod, pod.get("spec") or {})
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ObjectUnreadable(f"the pod has a field of the wrong shape: {error}") from None


def _pod_view(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> PodView:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return PodView(
        uid=uid_of(pod),
        key=key_of(pod),
        requests=pod_requests(_with_resize(pod, spec)),
        node_selector=dict(spec.get("nodeSelector") or {}),
        affinity_terms=tuple(map(_term, required.get("nodeSelectorTerms") or ())),
        tolerations=tuple(map(dict, spec.get("tolerations") or ())),
        claims=bool(spec.get("resourceClaims")),
    )


def _with_resize(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
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


def _term(term: Mapping[str, Any]) -> dict[str, Any]:
    """Return one node selector term with only what matching reads."""
    parts = ("matchExpressions", "matchFields")
    return {part: [_demand(demand) for demand in term.get(part) or ()] for part in parts}


def _demand(demand: Mapping[str, Any]) -> dict[str, Any]:
    values = [str(value) for value in demand.get("values") or ()]
    return {"key": str(demand.get("key") or ""), "operator": demand.get("operator"), "values": values}


def node_view(node: Mapping[str, Any]) -> NodeView:
    try:
        return _node_view(node, node.get("spec") or {})
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ObjectUnreadable(f"the node has a field of the wrong shape: {error}") from None


def _node_view(node: Mapping[str, Any], spec: Mapping[str, Any]) -> NodeView:
    taints = (Taint(t.get("key") or "", t.get("value") or "", t.get("effect") or "") for t in spec.get("taints") or ())
    return NodeView(
        name=node["metadata"]["name"],
        labels=dict(labels_of(node)),
        taints=tuple(taints),
        allocatable=amounts((node.get("status") or {}).get("allocatable") or {}),
        ready=condition_true(node, "Ready"),
        unschedulable=bool(spec.get("unschedulable")),
    )


def node_name_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def has_valid_shape(pod: Mapping[str, Any]) -> bool:
    """Return True if spec and status are maps or absent."""
    return all(isinstance(pod.get(part), dict | None) for part in ("spec", "status"))


def needs_scheduling(pod: Mapping[str, Any], scheduler: str) -> bool:
    """Return True if the pod is unbound, not terminating, not gated, and of this scheduler."""
    spec = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and not terminating(pod)
        and (spec.get("schedulerName") or "default-scheduler") == scheduler
        and not spec.get("schedulingGates")
        and not is_finished(pod)
    )


def is_finished(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def same_requirements(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if spec and claim names, which scheduling depends on, are equal."""
    made = [(pod.get("status") or {}).get("resourceClaimStatuses") for pod in (one, other)]
    return one.get("spec") == other.get("spec") and made[0] == made[1]
