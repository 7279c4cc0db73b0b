"""Upstream's PodTopologySpread as a filter: where constraints with DoNotSchedule let a pod go.

Domains are those of the nodes that have the labels of all constraints and pass the policies of the one in question;
terminating pods do not count. Source: podtopologyspread/filtering.go of Kubernetes 1.36.
"""

from actors.scheduler.affinity.pod_index import PodIndex
from actors.scheduler.model.pod_terms import SpreadConstraint
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import NodeLoad, NodeView, PodView
from protocols.kube.taints import untolerated
from protocols.scheduling.node_selection import selects_node

SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"
NODES_BETWEEN = 256
"""Nodes between two turns."""


class Domains:
    """Pods of one constraint, by domain."""

    def __init__(self, constraint: SpreadConstraint, pod: PodView) -> None:
        self.constraint = constraint
        self.selected = constraint.selector.matcher() if constraint.selector is not None else lambda labels: False
        self.own = int(self.selected(pod.labels))
        """1 if the constraint selects the pod itself."""
        self.pods: dict[str, int] = {}

    def copy(self, pod: PodView) -> "Domains":
        other = Domains(self.constraint, pod)
        other.pods = dict(self.pods)
        return other

    def least(self) -> int:
        return min(self.pods.values(), default=0) if len(self.pods) >= self.constraint.min_domains else 0


class TopologySpread:
    """The filter for one pod: await `count`, then ask about nodes."""

    def __init__(self, pod: PodView, index: PodIndex) -> None:
        self._pod, self._index = pod, index
        self._domains = [Domains(constraint, pod) for constraint in pod.rules.spread]
        self.concerns = bool(self._domains)
        """True if a node may be rejected."""
        self._least: list[int] | None = None

    async def count(self, nodes: dict[str, NodeLoad], turns: Turns) -> None:
        if not self._domains:
            return
        counted = await self._open(nodes, turns)
        for domains, here in zip(self._domains, counted, strict=True):
            for group in self._index.selected(self._pod.namespace, domains.constraint.selector):
                for name, amount in group.nodes.items():
                    if name in here:
                        domains.pods[here[name]] += amount
            await turns.rest_if_due()

    async def _open(self, nodes: dict[str, NodeLoad], turns: Turns) -> list[dict[str, str]]:
        """Begin each domain with no pod; return the domain of each node that counts, by constraint."""
        counted: list[dict[str, str]] = [{} for _ in self._domains]
        parts = [
            (own, own.constraint.topology_key, is_every_domain(own.constraint, self._pod), here)
            for own, here in zip(self._domains, counted, strict=True)
        ]
        for number, load in enumerate(list(nodes.values())):
            if number % NODES_BETWEEN == 0:
                await turns.rest_if_due()
            node = load.view
            if self._has_labels(node):
                for domains, key, every, here in parts:
                    if every or is_domain(domains.constraint, self._pod, node):
                        here[node.name] = node.labels[key]
        for domains, here in zip(self._domains, counted, strict=True):
            domains.pods = dict.fromkeys(here.values(), 0)
        return counted

    def copy(self) -> "TopologySpread":
        other = TopologySpread(self._pod, self._index)
        other._domains = [domain.copy(self._pod) for domain in self._domains]
        return other

    def reason(self, node: NodeView) -> str:
        """Return why the node is rejected; empty if it is not."""
        if self._least is None:
            self._least = [counted.least() for counted in self._domains]
        for domains, least in zip(self._domains, self._least, strict=True):
            domain = node.labels.get(domains.constraint.topology_key)
            if domain is None:
                return SPREAD_LABEL
            if domains.pods.get(domain, 0) + domains.own - least > domains.constraint.max_skew:
                return SPREAD
        return ""

    def change(self, pod: PodView, node: NodeView, amount: int) -> None:
        """Add a pod on a node, or remove it, by an amount of 1 or -1."""
        if not self._domains or pod.terminating or pod.namespace != self._pod.namespace or not self._has_labels(node):
            return
        self._least = None
        for domains in self._domains:
            if domains.selected(pod.labels) and is_domain(domains.constraint, self._pod, node):
                domain = node.labels[domains.constraint.topology_key]
                domains.pods[domain] = domains.pods.get(domain, 0) + amount

    def _has_labels(self, node: NodeView) -> bool:
        return all(domain.constraint.topology_key in node.labels for domain in self._domains)


def is_every_domain(constraint: SpreadConstraint, pod: PodView) -> bool:
    """Return True if the constraint's policies count every node."""
    return not constraint.honors_taints and not (
        constraint.honors_affinity and (pod.node_selector or pod.affinity_terms)
    )


def is_domain(constraint: SpreadConstraint, pod: PodView, node: NodeView) -> bool:
    """Return True if the constraint's policies count the node."""
    by_labels = pod.node_selector, pod.affinity_terms
    if constraint.honors_affinity and not selects_node(*by_labels, node.name, node.labels):
        return False
    return not (constraint.honors_taints and node.taints and untolerated(node.taints, pod.tolerations))
