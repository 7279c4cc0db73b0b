"""The parts of Pods and Nodes that scheduling needs. Pure; a wrong shape raises ObjectUnreadable, nothing else."""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from actors.scheduler.model.errors import ObjectUnreadable
from actors.scheduler.model.host_ports import HostPort, PortsInUse, pod_ports
from actors.scheduler.model.image_locality import node_images, pod_images
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import condition_true, key_of, labels_of, terminating, uid_of
from protocols.kube.quantity import NANO, parse_quantity
from protocols.kube.taints import Taint, node_taints

Amounts = dict[str, int]
"""Nano-units by resource, as in protocols.kube.quantity; `pods` counts pods."""
UNSPECIFIED: Amounts = {"cpu": NANO // 10, "memory": 200 * 2**20 * NANO}
"""Upstream's assumption of a container that requests none: 100m and 200 MiB."""


@dataclass(frozen=True)
class NodeView:
    """Scheduling-relevant part of a Node."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    ready: bool
    unschedulable: bool
    images: dict[str, int] = field(default_factory=dict)
    """Sizes in bytes by name."""

    @cached_property
    def soft_taints(self) -> tuple[Taint, ...]:
        return tuple(taint for taint in self.taints if taint.effect == "PreferNoSchedule")


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
    presumed: Amounts
    """Requests of cpu and memory for scores of free capacity: a container without one counts as UNSPECIFIED."""
    preferred_terms: tuple[tuple[int, dict[str, Any]], ...] = ()
    """Weights and nodeSelectorTerms of preferred node affinity."""
    images: tuple[str, ...] = ()
    """One for each container and image volume."""
    ports: tuple[HostPort, ...] = ()
    priority: int = 0
    preempts: bool = True
    """False with preemptionPolicy Never."""

    @cached_property
    def shape(self) -> bytes:
        """Equal for pods that every node treats alike, devices apart."""
        parts = (self.node_selector, self.affinity_terms, self.tolerations, self.ports, self.preferred_terms)
        return hashlib.blake2b(msgspec.json.encode((self.requests, self.presumed, *parts)), digest_size=16).digest()


VERSIONS = itertools.count(1)


@dataclass
class NodeLoad:
    """A node, and the requests of the pods on it."""

    view: NodeView
    used: Amounts = field(default_factory=dict)
    presumed: Amounts = field(default_factory=dict)
    """Sum of their presumed requests of cpu and memory."""
    ports: PortsInUse = field(default_factory=PortsInUse)
    pods: dict[str, PodView] = field(default_factory=dict)
    """By uid."""
    version: int = field(default_factory=VERSIONS.__next__)
    """Another one whenever anything of it changed."""

    def count(self, pod: PodView) -> None:
        self.version = next(VERSIONS)
        self.pods[pod.uid] = pod
        self.ports.add(pod.ports)
        add(self.used, pod.requests)
        add(self.presumed, pod.presumed)

    def discount(self, pod: PodView) -> None:
        self.version = next(VERSIONS)
        self.ports.remove(pod.ports)
        self.pods.pop(pod.uid, None)
        for name, amount in pod.presumed.items():
            self.presumed[name] -= amount
        for name, amount in pod.requests.items():
            self.used[name] = self.used.get(name, 0) - amount
            if not self.used[name]:
                del self.used[name]  # anybody's pod may name resources nobody has


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
        own = {**unspecified, **_container(container)}
        if container.get("restartPolicy") == "Always":
            add(running, own)
            own = dict.fromkeys(own, 0)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, 0), running.get(name, 0) + amount)
    for container in spec.get("containers") or ():
        add(running, {**unspecified, **_container(container)})
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
    preferred = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    counted = _with_resize(pod, spec)
    return PodView(
        uid=uid_of(pod),
        key=key_of(pod),
        requests=pod_requests(counted),
        node_selector=dict(spec.get("nodeSelector") or {}),
        affinity_terms=tuple(map(_term, required.get("nodeSelectorTerms") or ())),
        tolerations=tuple(map(dict, spec.get("tolerations") or ())),
        claims=bool(spec.get("resourceClaims")),
        presumed=_presumed(counted),
        preferred_terms=tuple((int(each["weight"]), _term(each.get("preference") or {})) for each in preferred),
        images=pod_images(spec),
        ports=pod_ports(spec),
        priority=int(spec.get("priority") or 0),
        preempts=spec.get("preemptionPolicy") != "Never",
    )


def _presumed(spec: Mapping[str, Any]) -> Amounts:
    found = pod_requests(spec, UNSPECIFIED)
    return {name: found.get(name, 0) for name in UNSPECIFIED}


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
    return NodeView(
        name=node["metadata"]["name"],
        labels=dict(labels_of(node)),
        taints=node_taints(node),
        allocatable=amounts((node.get("status") or {}).get("allocatable") or {}),
        ready=condition_true(node, "Ready"),
        unschedulable=bool(spec.get("unschedulable")),
        images=node_images(node.get("status") or {}),
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
