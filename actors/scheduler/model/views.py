"""The parts of Pods and Nodes that scheduling needs. Pure; a wrong shape raises ObjectUnreadable, nothing else."""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from actors.scheduler.model.errors import ObjectUnreadable
from actors.scheduler.model.image_locality import node_images, pod_images
from actors.scheduler.model.pod_terms import NO_RULES, PodRules, pod_rules
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object, key_of, labels_of, meta, split_key, terminating, uid_of
from protocols.kube.pods import is_finished
from protocols.kube.taints import Taint, node_taints, not_ready_taint
from protocols.scheduling.declared_features import needed_features
from protocols.scheduling.host_ports import HostPort, PortsInUse, pod_ports
from protocols.scheduling.node_selection import named_nodes, node_term, required_terms
from protocols.scheduling.requests import UNSPECIFIED, Amounts, add, amounts, pod_requests, subtract, with_resize

RUN = frozenset((
    "command", "args", "env", "envFrom", "volumeMounts", "volumeDevices", "workingDir", "lifecycle", "livenessProbe",
    "readinessProbe", "startupProbe", "securityContext", "imagePullPolicy", "terminationMessagePath",
    "terminationMessagePolicy", "stdin", "stdinOnce", "tty",
))  # fmt: skip
"""Fields of a container that say how it runs."""


def retained_pod(pod: views.Pod) -> Object:
    """Return the pod without what scheduling never reads: annotations, managedFields, and how its containers run."""
    metadata = {name: value for name, value in meta(pod).items() if name not in ("annotations", "managedFields")}
    spec: Object = {**(pod.get("spec") or {})}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        if kind in spec:
            spec[kind] = [
                {name: container[name] for name in container if name not in RUN} for container in spec[kind] or ()
            ]
    return {**pod, "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class NodeView:
    """Scheduling-relevant part of a Node."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    not_ready: Taint | None
    """Taint of a node that is not Ready."""
    unschedulable: bool
    images: dict[str, int] = field(default_factory=dict)
    """Sizes in bytes by name."""
    features: frozenset[str] = frozenset()
    """status.declaredFeatures."""

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
    affinity_terms: tuple[views.NodeSelectorTerm, ...]
    """nodeSelectorTerms of required node affinity, one of which must match; empty = no requirement."""
    tolerations: tuple[views.Toleration, ...]
    claims: bool
    """True if the pod references resource claims."""
    presumed: Amounts
    """Requests of cpu and memory for scores of free capacity: a container without one counts as UNSPECIFIED."""
    preferred_terms: tuple[tuple[int, views.NodeSelectorTerm], ...] = ()
    """Weights and nodeSelectorTerms of preferred node affinity."""
    images: tuple[str, ...] = ()
    """One for each container and image volume."""
    ports: tuple[HostPort, ...] = ()
    priority: int = 0
    preempts: bool = True
    """False with preemptionPolicy Never."""
    labels: dict[str, str] = field(default_factory=dict)
    terminating: bool = False
    owner: str = ""
    """Uid of the controller that created the pod, if its pods are spread by default."""
    rules: PodRules = NO_RULES
    """About other pods."""
    features: tuple[str, ...] = ()
    """Those that its node must declare."""

    @cached_property
    def namespace(self) -> str:
        return split_key(self.key)[0]

    @cached_property
    def named_nodes(self) -> frozenset[str] | None:
        """Return the only nodes that required node affinity allows by name; None if it names none."""
        return named_nodes(self.affinity_terms)

    @cached_property
    def group(self) -> tuple[bool, str, tuple[tuple[str, str], ...]]:
        """Equal for pods of a namespace that rules about other pods treat alike."""
        return self.terminating, self.owner, tuple(sorted(self.labels.items()))

    @cached_property
    def shape(self) -> bytes:
        """Equal for pods that every node treats alike, devices apart."""
        parts = (
            self.node_selector,
            self.affinity_terms,
            self.tolerations,
            self.ports,
            self.preferred_terms,
            self.features,
        )
        return hashlib.blake2b(msgspec.json.encode((self.requests, self.presumed, *parts)), digest_size=16).digest()


VERSIONS = itertools.count(1)
SPREAD = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Controllers whose pods are spread by default, as upstream."""


class NodeLoad(msgspec.Struct):
    """A node, and the requests of the pods on it."""

    view: NodeView
    used: Amounts = msgspec.field(default_factory=dict)
    presumed: Amounts = msgspec.field(default_factory=dict)
    """Sum of their presumed requests of cpu and memory."""
    ports: PortsInUse = msgspec.field(default_factory=PortsInUse)
    pods: dict[str, PodView] = msgspec.field(default_factory=dict)
    """By uid."""
    version: int = msgspec.field(default_factory=VERSIONS.__next__)
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
        subtract(self.used, pod.requests)


def pod_view(pod: views.Pod) -> PodView:
    """Read the parts of a pod that the scheduler uses. Raises ObjectUnreadable."""
    try:
        return _pod_view(pod, pod.get("spec") or {})
    except SHAPE_ERRORS as error:
        raise ObjectUnreadable(f"the pod has a field of the wrong shape: {error}") from None


def _pod_view(pod: views.Pod, spec: views.PodSpec) -> PodView:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    counted = with_resize(pod, spec)
    metadata = meta(pod)
    labels = metadata.get("labels") or {}
    return PodView(
        uid=uid_of(pod),
        key=key_of(pod),
        requests=pod_requests(counted),
        node_selector=dict(spec.get("nodeSelector") or {}),
        affinity_terms=required_terms(spec),
        tolerations=tuple({**toleration} for toleration in spec.get("tolerations") or ()),
        claims=bool(spec.get("resourceClaims")),
        presumed=_presumed(counted),
        preferred_terms=tuple((int(term["weight"]), node_term(term.get("preference") or {})) for term in preferred),
        images=pod_images(spec),
        ports=pod_ports(spec),
        priority=int(spec.get("priority") or 0),
        preempts=spec.get("preemptionPolicy") != "Never",
        labels=labels,
        terminating=bool(metadata.get("deletionTimestamp")),
        owner=_owner(metadata.get("ownerReferences") or ()),
        rules=pod_rules(spec, str(metadata.get("namespace") or "")),
        features=needed_features(spec),
    )


def _owner(references: Iterable[views.OwnerReference]) -> str:
    for reference in references:
        if reference.get("controller") and reference.get("kind") in SPREAD:
            return str(reference.get("uid"))
    return ""


def _presumed(spec: views.PodSpec) -> Amounts:
    requests = pod_requests(spec, UNSPECIFIED)
    return {name: requests.get(name, 0) for name in UNSPECIFIED}


def node_view(node: views.Node) -> NodeView:
    """Read the parts of a node that the scheduler uses. Raises ObjectUnreadable."""
    try:
        return _node_view(node, node.get("spec") or {})
    except SHAPE_ERRORS as error:
        raise ObjectUnreadable(f"the node has a field of the wrong shape: {error}") from None


def _node_view(node: views.Node, spec: views.NodeSpec) -> NodeView:
    return NodeView(
        name=node["metadata"]["name"],
        labels=dict(labels_of(node)),
        taints=node_taints(node),
        allocatable=amounts((node.get("status") or {}).get("allocatable") or {}),
        not_ready=not_ready_taint(node),
        unschedulable=bool(spec.get("unschedulable")),
        images=node_images(node.get("status") or {}),
        features=frozenset((node.get("status") or {}).get("declaredFeatures") or ()),
    )


def node_name_of(pod: views.Pod) -> str:
    """Return the node to which a pod is bound; empty while it is not."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def has_valid_shape(pod: views.Pod) -> bool:
    """Return True if spec and status are maps or absent."""
    return all(isinstance(pod.get(part), dict | None) for part in ("spec", "status"))


def needs_scheduling(pod: views.Pod, scheduler: str) -> bool:
    """Return True if the pod is unbound, not terminating, not gated, and of this scheduler."""
    spec = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and not terminating(pod)
        and (spec.get("schedulerName") or "default-scheduler") == scheduler
        and not spec.get("schedulingGates")
        and not is_finished(pod)
    )


def has_same_requirements(one: views.Pod, other: views.Pod) -> bool:
    """Return True if spec, labels and claim names, which scheduling depends on, are equal."""
    statuses = [(pod.get("status") or {}).get("resourceClaimStatuses") for pod in (one, other)]
    return one.get("spec") == other.get("spec") and labels_of(one) == labels_of(other) and statuses[0] == statuses[1]
