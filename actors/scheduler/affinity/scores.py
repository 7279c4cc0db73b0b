"""Scores of nodes by other pods: preferred affinity, and topology spread that forbids nothing.

Upstream's InterPodAffinity and PodTopologySpread with their default weights; each gives 0 to 100. A pod of a ReplicaSet
or StatefulSet without constraints is spread by upstream's default ones. Sources: scoring.go of both plugins of
Kubernetes 1.36; its default constraints also select pods by the services that select the pod.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from actors.scheduler.affinity.pod_index import PodGroup, PodIndex
from actors.scheduler.affinity.spread import is_domain, is_every_domain
from actors.scheduler.model.pod_terms import Labels, SpreadConstraint
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import NodeLoad, PodView

AFFINITY_WEIGHT, SPREAD_WEIGHT = 2, 2
FULL = 100
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DEFAULT_CONSTRAINTS = (SpreadConstraint(HOSTNAME, 3, None), SpreadConstraint(ZONE, 5, None))
"""Upstream's for pods without constraints; they select the pods of the same controller."""
Nodes = Mapping[str, NodeLoad]
Scores = dict[str, int]


def is_scored(pod: PodView, index: PodIndex) -> bool:
    """Return True if other pods may matter to the choice of a node."""
    rules = pod.rules
    return bool(rules.preferred or rules.preferred_spread or len(index.preferences) or _spreads_by_default(pod))


def _spreads_by_default(pod: PodView) -> bool:
    return bool(pod.owner) and not pod.rules.spread and not pod.rules.preferred_spread


class PodScores:
    """Counts for one pod; `scores` compares nodes without waiting."""

    def __init__(self, pod: PodView, index: PodIndex) -> None:
        self._pod, self._index = pod, index
        self._weights: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Sum of weights by topology key and domain."""
        self._defaulted = _spreads_by_default(pod)
        self._constraints = DEFAULT_CONSTRAINTS if self._defaulted else pod.rules.preferred_spread
        self._pods: list[Counter[str]] = []
        """Pods that each constraint selects, by domain; by node for the host name."""

    async def count(self, nodes: Nodes, turns: Turns) -> "PodScores":
        pod, index = self._pod, self._index
        for weight, term in pod.rules.preferred:
            for group in index.matching(term):
                self._weigh(term.topology_key, group.nodes, weight, nodes)
            await turns.rest_if_due()
        labels = index.labels_of(pod.namespace)
        for use in index.preferences:
            if use.matches(pod.namespace, pod.labels, labels):
                self._weigh(use.key, use.nodes, 1, nodes)
            await turns.rest_if_due()
        on_nodes: Counter[str] | None = None
        for constraint in self._constraints:
            if on_nodes is None or not self._defaulted:  # the default constraints select the same pods
                on_nodes = self._on_nodes(constraint)
            by_host = constraint.topology_key == HOSTNAME
            self._pods.append(on_nodes if by_host else self._by_domain(constraint, on_nodes, nodes))
            await turns.rest_if_due()
        return self

    def scores(self, fitting: Nodes) -> Scores:
        """Return the scores of nodes, times the weights of their plugins; nodes that are missing have 0."""
        affinity, spread = self._affinity(fitting), self._spread(fitting)
        if not affinity:
            return spread
        return {name: score + spread.get(name, 0) for name, score in affinity.items()}

    # affinity

    def _weigh(self, key: str, amounts: Mapping[str, int], weight: int, nodes: Nodes) -> None:
        for name, amount in amounts.items():
            if (load := nodes.get(name)) is not None and (domain := load.view.labels.get(key)) is not None:
                self._weights[key][domain] += amount * weight

    def _affinity(self, fitting: Nodes) -> Scores:
        if not self._weights:
            return {}
        sums = {name: self._sum(load.view.labels) for name, load in fitting.items()}
        least, most = min(sums.values()), max(sums.values())
        span = most - least or 1
        return {name: AFFINITY_WEIGHT * (FULL * (total - least) // span) for name, total in sums.items()}

    def _sum(self, labels: Labels) -> int:
        return sum(domains[labels[key]] for key, domains in self._weights.items() if key in labels)

    # spread

    def _groups(self, constraint: SpreadConstraint) -> Iterable[PodGroup]:
        if self._defaulted:
            return self._index.owned(self._pod.namespace, self._pod.owner)
        return self._index.selected(self._pod.namespace, constraint.selector)

    def _on_nodes(self, constraint: SpreadConstraint) -> Counter[str]:
        amounts = Counter[str]()
        for group in self._groups(constraint):
            for name, amount in group.nodes.items():
                amounts[name] += amount
        return amounts

    def _by_domain(self, constraint: SpreadConstraint, on_nodes: Counter[str], nodes: Nodes) -> Counter[str]:
        amounts, key = Counter[str](), constraint.topology_key
        every = is_every_domain(constraint, self._pod)
        for name, amount in on_nodes.items():
            if (load := nodes.get(name)) is None or not self._is_scored(load):
                continue
            if every or is_domain(constraint, self._pod, load.view):
                amounts[load.view.labels.get(key, "")] += amount
        return amounts

    def _is_scored(self, load: NodeLoad) -> bool:
        """Return False for nodes without the label of a constraint of the pod's own."""
        return self._defaulted or all(constraint.topology_key in load.view.labels for constraint in self._constraints)

    def _spread(self, fitting: Nodes) -> Scores:
        if not self._constraints:
            return {}
        nodes = fitting if self._defaulted else {name: each for name, each in fitting.items() if self._is_scored(each)}
        sums = self._sums(nodes)
        least, most = min(sums.values(), default=0), max(sums.values(), default=0)
        scores = {total: SPREAD_WEIGHT * _inverse(total, least, most) for total in set(sums.values())}
        return {name: scores[each] for name, each in sums.items()}

    def _sums(self, nodes: Nodes) -> Scores:
        """Return the weighted counts of each node; nodes of equal domains share one computation."""
        keys = [constraint.topology_key for constraint in self._constraints]
        weights = [self._topology_weight(key, nodes) for key in keys]
        hosts = next((pods for key, pods in zip(keys, self._pods, strict=True) if key == HOSTNAME), Counter[str]())
        others = [key for key in keys if key != HOSTNAME]
        known: dict[tuple[object, ...], int] = {}
        sums = {}
        for name, load in nodes.items():
            labels = load.view.labels
            domains = (hosts.get(name), HOSTNAME in labels, *[labels.get(key) for key in others])
            if (total := known.get(domains)) is None:
                total = known[domains] = self._sum_of(load, weights)
            sums[name] = total
        return sums

    def _topology_weight(self, key: str, nodes: Nodes) -> float:
        """Return more for topologies with many domains, whose counts are small."""
        domains = len(nodes) if key == HOSTNAME else len({load.view.labels.get(key, "") for load in nodes.values()})
        return math.log(domains + 2)

    def _sum_of(self, load: NodeLoad, weights: list[float]) -> int:
        total, labels = 0.0, load.view.labels
        for constraint, pods, weight in zip(self._constraints, self._pods, weights, strict=True):
            if (domain := labels.get(constraint.topology_key)) is not None:
                count = pods[load.view.name if constraint.topology_key == HOSTNAME else domain]
                total += count * weight + constraint.max_skew - 1
        return math.floor(total + 0.5)


def _inverse(count: int, least: int, most: int) -> int:
    return FULL * (most + least - count) // most if most else FULL
