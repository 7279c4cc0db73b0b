"""From API objects to what placement needs of them. Pure. Wrong shapes raise ObjectUnreadable, never anything else."""

from collections.abc import Iterable, Mapping
from typing import Any

from actors.scheduler.errors import ObjectUnreadable
from actors.scheduler.types import Amounts, NodeView, PodView, Taint
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import condition_true, key_of, labels_of, terminating, uid_of
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
    """max(init containers, sum of app containers), each with the sidecars started before them; one of `pods`. What the
    pod asks for as a whole goes before what its containers do."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, own)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, added(sidecars, own))
    apps = _sum(_container(container) for container in spec.get("containers") or ())
    whole = (spec.get("resources") or {}).get("requests") or {}
    total = {**larger(peak, added(sidecars, apps)), **amounts(whole)}  # the pod's own word about a resource decides
    return added(added(total, amounts(spec.get("overhead") or {})), {"pods": NANO})


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        total = added(total, part)
    return total


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
        requests=pod_requests(_sized(pod, spec)),
        node_selector=dict(spec.get("nodeSelector") or {}),
        affinity_terms=tuple(map(_term, required.get("nodeSelectorTerms") or ())),
        tolerations=tuple(map(dict, spec.get("tolerations") or ())),
        claims=bool(spec.get("resourceClaims")),
    )


def _sized(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of a pod that is being resized: it takes what it has and what it wants, whichever is more; of what its
    node can never give, only what it has."""
    status = pod.get("status") or {}
    resizing = [c for c in status.get("conditions") or () if str(c.get("type")).startswith("PodResize")]
    if not resizing:
        return spec
    wants = all(condition.get("reason") != "Infeasible" for condition in resizing)
    lists = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
    changed = {}
    for field, shown in lists:
        held = {entry.get("name"): entry.get("allocatedResources") or {} for entry in status.get(shown) or ()}
        changed[field] = [_with(raw, held.get(raw.get("name")) or {}, wants) for raw in spec.get(field) or ()]
    return {**spec, **changed}


def _with(container: Mapping[str, Any], held: Mapping[str, Any], wants: bool) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    have, want = amounts(held), amounts(asked)
    more = {name: text for name, text in held.items() if not wants or have.get(name, 0) > want.get(name, 0)}
    return {**container, "resources": {**resources, "requests": {**asked, **more}}}


def _term(term: Mapping[str, Any]) -> dict[str, Any]:
    """One node selector term with nothing but what fit.py reads."""
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


def readable(pod: Mapping[str, Any]) -> bool:
    """Spec and status, where present, are maps."""
    return all(isinstance(pod.get(part), dict | None) for part in ("spec", "status"))


def wants_placement(pod: Mapping[str, Any], scheduler: str) -> bool:
    """Unbound, not ending, not gated, and asking for this scheduler."""
    spec = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and not terminating(pod)
        and (spec.get("schedulerName") or "default-scheduler") == scheduler
        and not spec.get("schedulingGates")
        and not is_over(pod)
    )


def is_over(pod: Mapping[str, Any]) -> bool:
    """A finished pod holds nothing of its node any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def same_demand(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Nothing changed that a pod's placement goes by: its spec, and the names of its claims."""
    made = [(pod.get("status") or {}).get("resourceClaimStatuses") for pod in (one, other)]
    return one.get("spec") == other.get("spec") and made[0] == made[1]
