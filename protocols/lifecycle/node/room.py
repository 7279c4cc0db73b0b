"""Admission of pods by the node itself, as kubelet: resources, node selection, host ports, taints. Pure.

Reasons, messages and their order are upstream's (pkg/kubelet/lifecycle/predicate.go); the first reason decides. A pod
counts from its admission until its devices are free. Pods that run when this process starts are not judged again.
Extended resources of device plugins are not judged here: the device manager allocates them. Those that a DeviceClass
provides have a claim.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object, labels_of, name_of
from protocols.kube.objects import at
from protocols.kube.quantity import NANO
from protocols.kube.resource_names import DEVICE_CLASS, is_extended
from protocols.kube.taints import NO_EXECUTE, node_taints, untolerated
from protocols.lifecycle.errors import PodInvalid, RoomTaken
from protocols.lifecycle.node.critical_pods import Occupant, is_critical, still_needed, victims
from protocols.lifecycle.pods.admission import REJECTED
from protocols.lifecycle.pods.resources import GUARANTEED, NAMES, NodeCapacity, allocated_spec, qos_class
from protocols.lifecycle.pods.resources import Amounts as Sizes
from protocols.lifecycle.pods.types import PodSpec, Waiting, is_static
from protocols.scheduling.host_ports import NO_PORTS, pod_ports
from protocols.scheduling.node_fit import NodeUse, Shortage, shortages
from protocols.scheduling.node_selection import NOT_SELECTED, required_terms, selects_node
from protocols.scheduling.requests import amounts, pod_requests

OS_LABEL, OS = "kubernetes.io/os", "linux"
OTHER_NODE = "node(s) didn't match the requested node name"
UNTOLERATED = "node(s) had taints that the pod didn't tolerate"
UNEXPECTED = "UnexpectedAdmissionError"
MILLI = NANO // 1000


class RoomVerdict(msgspec.Struct, frozen=True):
    """Decision about a pod: admitted, rejected, or admitted once other pods have ended."""

    rejected: Waiting | None = None
    preempt: tuple[str, ...] = ()
    """Uids of pods that must end first, for a critical pod."""

    @property
    def admitted(self) -> bool:
        return self.rejected is None and not self.preempt


ADMITTED = RoomVerdict()


class NodeRoom:
    """Requests and host ports of the admitted pods of this node."""

    def __init__(self) -> None:
        self._pods: dict[str, Occupant] = {}
        self._preempted: set[str] = set()
        """Uids of counted pods that end for a critical pod."""
        self._deferred: dict[str, Occupant] = {}
        """Counted pods as they are to be resized once there is room, the one that waits longest first."""
        self._use = NodeUse()

    def admit(self, spec: PodSpec, node: views.Node, advertised: Collection[str]) -> RoomVerdict:
        """Judge the pod and count it if it is admitted. Counted pods are admitted again. Raises PodInvalid.

        `advertised`: extended resources of the node that no device plugin provides.
        """
        if spec.uid in self._pods:
            return ADMITTED
        pod = occupant(spec)
        if (unfit := _system_fault(spec) or _groups_fault(spec, node)) is not None:
            return RoomVerdict(unfit)
        short = self._shortages(pod, node, advertised)
        faults = list(self._predicate_faults(spec, pod, node))
        if short and not faults and is_critical(spec):
            return self._preempt(pod, short)
        if faults and (not short or is_critical(spec)):
            return RoomVerdict(faults[0])
        if short:
            return RoomVerdict(_shortage(short[0]))
        self._add(spec.uid, pod)
        return ADMITTED

    def count(self, spec: PodSpec, sizes: Mapping[str, Sizes] | None = None) -> None:
        """Count a pod without judging it, again if its allocated resources `sizes` have changed. Raises PodInvalid."""
        pod = occupant(spec, sizes or {})
        self.discount(spec.uid)
        self._add(spec.uid, pod)

    def settle(self, spec: PodSpec, verdict: RoomVerdict) -> Waiting | None:
        """Return why the node rejects the pod, None if it does not.

        Raises RoomTaken while other pods end for it: they are recorded, so that it ends no others while it waits.
        """
        if verdict.preempt:
            self._preempted.update(uid for uid in verdict.preempt if uid in self._pods)
            ending = f"waits until {len(verdict.preempt)} preempted pods ended"
            raise RoomTaken(f"pod {spec.namespace}/{spec.name}: {ending}")
        if verdict.rejected is None:
            return None
        return Waiting(verdict.rejected.reason, f"{REJECTED}{verdict.rejected.message}")

    def discount(self, uid: str) -> None:
        if (pod := self._pods.pop(uid, None)) is not None:
            self._use.remove(pod.requests, pod.ports)
            self._preempted.discard(uid)
            self._deferred.pop(uid, None)

    def defer(self, spec: PodSpec, deferred: bool) -> None:
        """Record if a counted pod waits for the room that its spec wants. Raises PodInvalid."""
        if deferred and spec.uid in self._pods:
            self._deferred[spec.uid] = occupant(spec)
        else:
            self._deferred.pop(spec.uid, None)

    def capacity_for(self, spec: PodSpec, allocatable: Object) -> NodeCapacity:
        """Return allocatable CPU and memory, and what all other pods use or take first. Raises PodInvalid.

        Deferred resizes that fit take their room in upstream's order: by priority, Guaranteed pods first, by time.
        """
        given = amounts({name: allocatable[name] for name in NAMES if name in allocatable})
        used = {name: self._use.used.get(name, 0) for name in given}
        for uid in self._first(spec) if self._deferred else ():
            after = {name: used[name] + self._growth(uid, name) for name in given}
            used = after if all(after[name] <= given[name] for name in given) else used
        own = self._pods[spec.uid].requests if spec.uid in self._pods else {}
        return {name: (amount // MILLI, (used[name] - own.get(name, 0)) // MILLI) for name, amount in given.items()}

    def _first(self, spec: PodSpec) -> list[str]:
        """Return the uids of deferred pods that are resized before this one."""
        waiting = {**self._deferred, spec.uid: occupant(spec)}
        order = sorted(waiting, key=lambda uid: (-(waiting[uid].priority or 0), waiting[uid].quality != GUARANTEED))
        return order[: order.index(spec.uid)]

    def _growth(self, uid: str, name: str) -> int:
        return self._deferred[uid].requests.get(name, 0) - self._pods[uid].requests.get(name, 0)

    def _add(self, uid: str, pod: Occupant) -> None:
        self._pods[uid] = pod
        self._use.add(pod.requests, pod.ports)

    def _shortages(self, pod: Occupant, node: views.Node, advertised: Collection[str]) -> list[Shortage]:
        asked = {
            name: amount
            for name, amount in pod.requests.items()
            if name in advertised or not (is_extended(name) or name.startswith(DEVICE_CLASS))
        }
        short = shortages(asked, amounts((node.get("status") or {}).get("allocatable") or {}), self._use.used)
        return sorted(short, key=_upstream_order)

    def _predicate_faults(self, spec: PodSpec, pod: Occupant, node: views.Node) -> Iterator[Waiting]:
        wanted, name = spec.raw.get("spec") or {}, name_of(node)
        if not selects_node(wanted.get("nodeSelector") or {}, required_terms(wanted), name, labels_of(node)):
            yield _predicate("NodeAffinity", NOT_SELECTED)
        if wanted.get("nodeName") not in (None, "", name):
            yield _predicate("NodeName", OTHER_NODE)
        if self._use.ports.has_conflict(pod.ports):
            yield _predicate("NodePorts", NO_PORTS)
        taints = [taint for taint in node_taints(node) if taint.effect == NO_EXECUTE]
        if not is_static(spec.raw) and untolerated(taints, wanted.get("tolerations") or ()) is not None:
            yield _predicate("TaintToleration", UNTOLERATED)

    def _preempt(self, pod: Occupant, short: list[Shortage]) -> RoomVerdict:
        ending = [self._pods[uid] for uid in self._preempted]
        needed = still_needed(
            {shortage.resource: shortage.requested + shortage.used - shortage.capacity for shortage in short}, ending
        )
        staying = {uid: other for uid, other in self._pods.items() if uid not in self._preempted}
        uids = victims(pod, staying, needed)
        if uids is not None:
            return RoomVerdict(preempt=(*self._preempted, *uids))
        left = "".join(f"(res: {name}, q: {_shown(name, amount)}), " for name, amount in needed.items())
        text = f"no set of running pods found to reclaim resources: [{left}]"
        return RoomVerdict(
            Waiting(
                UNEXPECTED,
                "Unexpected error while attempting to recover from admission failure: preemption: error finding a set "
                f"of pods to preempt: {text}",
            )
        )


def occupant(spec: PodSpec, sizes: Mapping[str, Sizes] | None = None) -> Occupant:
    """Return the requests and ports of the pod; of containers in `sizes`, those amounts. Raises PodInvalid."""
    try:
        wanted = allocated_spec(spec, sizes or {})
        priority = wanted.get("priority")
        return Occupant(
            requests=pod_requests(wanted),
            ports=pod_ports(wanted),
            quality=qos_class(wanted),
            priority=None if priority is None else int(priority),
            critical=is_critical(spec),
        )
    except SHAPE_ERRORS as error:
        raise PodInvalid(f"not a pod that can be admitted: {error}") from None


def _system_fault(spec: PodSpec) -> Waiting | None:
    """Return why a pod for another operating system is rejected."""
    if labels_of(spec.raw).get(OS_LABEL, OS) != OS:
        text = f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label"
        return Waiting("PodOSSelectorNodeLabelDoesNotMatch", text)
    if (((spec.raw.get("spec") or {}).get("os") or {}).get("name") or OS) != OS:
        return Waiting("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None


def _groups_fault(spec: PodSpec, node: views.Node) -> Waiting | None:
    """Return why a pod is rejected by a runtime that would add the groups of its image nevertheless."""
    strict = at(spec.raw, "spec", "securityContext", "supplementalGroupsPolicy") == "Strict"
    if strict and at(node, "status", "features", "supplementalGroupsPolicy") is False:
        text = "SupplementalGroupsPolicy=Strict is not supported in this node"
        return Waiting("SupplementalGroupsPolicyNotSupported", text)
    return None


def _predicate(name: str, text: str) -> Waiting:
    return Waiting(name, f"Predicate {name} failed: {text}")


_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")


def _upstream_order(short: Shortage) -> tuple[int, str]:
    name = short.resource
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _shortage(short: Shortage) -> Waiting:
    name = short.resource
    shown = ", ".join(
        f"{part}: {_shown(name, amount)}"
        for part, amount in (("requested", short.requested), ("used", short.used), ("capacity", short.capacity))
    )
    return Waiting(f"OutOf{name}", f"Node didn't have enough resource: {name}, {shown}")


def _shown(name: str, nanos: int) -> int:
    """CPU in thousandths, everything else whole; rounded up."""
    return -(-nanos // (MILLI if name == "cpu" else NANO))
