"""Why a pod cannot use a node, whatever its devices: the scheduler's filters, on the objects of an API. Pure.

As in the scheduler, the first filter that rejects a node is the reason, except that every insufficient resource is
named. Affinity to other pods and topology spread constraints are not judged.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from protocols.dra.diagnosis.types import Rejection
from protocols.dra.pods import allocation_of
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import key_of, labels_of, name_of, uid_of
from protocols.kube.pods import is_finished
from protocols.kube.quantity import BINARY_SI, DECIMAL_SI, NANO, Quantity
from protocols.kube.selectors import selects
from protocols.kube.taints import UNSCHEDULABLE_TAINT, node_taints, not_ready_taint, taint_text, tolerated, untolerated
from protocols.scheduling.declared_features import needed_features
from protocols.scheduling.host_ports import HostPort, pod_ports
from protocols.scheduling.node_fit import NodeUse, Shortage, shortages
from protocols.scheduling.node_selection import named_nodes, required_terms, selects_node
from protocols.scheduling.requests import amounts, pod_requests, with_resize

READY, UNSCHEDULABLE, SELECTION, TAINT = "ready", "unschedulable", "node selection", "taint"
PORTS, RESOURCES, FEATURES, CLAIM = "host ports", "resources", "features", "claim"
IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


class NodeRules:
    """The scheduler's filters for one pod."""

    def __init__(
        self, pod: views.Pod, pods: Iterable[views.Pod], allocated: Collection[views.ResourceClaim] = (),
        backed: Collection[str] = (),
    ) -> None:  # fmt: skip
        """`pods` are all pods of the API, `allocated` the pod's claims that have devices.

        `backed` resources need not be on the node if it has none of them at all.
        """
        spec = pod.get("spec") or {}
        self._tolerations = tuple(spec.get("tolerations") or ())
        self._selector, self._terms = spec.get("nodeSelector") or {}, required_terms(spec)
        self._named = named_nodes(self._terms)
        self._ports, self._requests = pod_ports(spec), pod_requests(with_resize(pod, spec))
        self._needed = needed_features(spec)
        self._allocated, self._backed = allocated, backed
        self._loads = _loads(pod, pods)

    def rejections(self, node: views.Node) -> list[Rejection]:
        """Return why the pod cannot use the node; empty if it has room."""
        why = self._reason(node)
        return [why] if why is not None else list(self._shortages(node)) or self._features(node) or self._claims(node)

    def _reason(self, node: views.Node) -> Rejection | None:
        name, labels = name_of(node), labels_of(node)
        if self._named is not None and name not in self._named:
            return Rejection(SELECTION, "does not have the name that the pod's node affinity demands")
        if (absent := not_ready_taint(node)) and not tolerated(absent, self._tolerations):
            return Rejection(READY, "not ready")
        if (node.get("spec") or {}).get("unschedulable") and not tolerated(UNSCHEDULABLE_TAINT, self._tolerations):
            return Rejection(UNSCHEDULABLE, "unschedulable")
        if (taint := untolerated(node_taints(node), self._tolerations)) is not None:
            return Rejection(TAINT, f"untolerated taint {taint_text(taint)}")
        if not selects_node(self._selector, (), name, labels):
            return Rejection(SELECTION, f"does not match the pod's nodeSelector: {_unmatched(self._selector, labels)}")
        if not selects_node({}, self._terms, name, labels):
            return Rejection(SELECTION, "does not match the pod's node affinity")
        taken = [_port_text(port) for port in self._ports if self._loads[name].ports.has_conflict((port,))]
        return Rejection(PORTS, f"no free host port: {', '.join(taken)}") if taken else None

    def _shortages(self, node: views.Node) -> Iterator[Rejection]:
        has, used = amounts((node.get("status") or {}).get("allocatable") or {}), self._loads[name_of(node)].used
        for short in shortages(self._requests, has, used, self._backed):
            yield Rejection(RESOURCES, _shortage_text(short))

    def _features(self, node: views.Node) -> list[Rejection]:
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        return [Rejection(FEATURES, f"does not declare {name}") for name in self._needed if name not in declared]

    def _claims(self, node: views.Node) -> list[Rejection]:
        for claim in self._allocated:
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector and not selects(selector, name_of(node), labels_of(node)):
                return [Rejection(CLAIM, f"claim {key_of(claim)} is allocated for other nodes")]
        return []


def _unmatched(selector: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Return what the node lacks, without its own value: nodes that lack the same share a line."""
    lacks = (
        f"label {key} is not {value}" if key in labels else f"no label {key}"
        for key, value in selector.items()
        if labels.get(key) != value
    )
    return ", ".join(lacks)


def _loads(own: views.Pod, pods: Iterable[views.Pod]) -> defaultdict[str, NodeUse]:
    """Return the load of each node. Pods with a field of the wrong shape count nowhere, as in the scheduler."""
    loads: defaultdict[str, NodeUse] = defaultdict(NodeUse)
    for pod in pods:
        try:
            if uid_of(pod) != uid_of(own) and (node := _node_with_room(pod, own)):
                spec = pod.get("spec") or {}
                loads[node].add(pod_requests(with_resize(pod, spec)), pod_ports(spec))
        except SHAPE_ERRORS:
            continue
    return loads


def _node_with_room(pod: views.Pod, own: views.Pod) -> str:
    """Return the node whose room the pod has, or that is kept for it after a preemption."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if is_finished(pod):
        return ""
    ahead = int(spec.get("priority") or 0) >= int((own.get("spec") or {}).get("priority") or 0)
    return str(spec.get("nodeName") or (status.get("nominatedNodeName") if ahead else "") or "")


def _port_text(port: HostPort) -> str:
    return f"{port.protocol} {port.port}"


def _shortage_text(short: Shortage) -> str:
    name = short.resource
    if name == "pods":
        return f"Too many pods: {short.capacity // NANO} allowed"
    left = f"free {_quantity(name, max(0, short.capacity - short.used))}" if short.capacity else "the node has none"
    return f"Insufficient {name}: requested {_quantity(name, short.requested)}, {left}"


def _quantity(name: str, amount: int) -> str:
    return str(Quantity(amount, BINARY_SI if name.startswith(IN_BYTES) else DECIMAL_SI))
