"""Upstream's InterPodAffinity as a filter: where required affinity and anti-affinity let a pod go.

Counts are made once for a pod, then a node is judged by one lookup. Pods may be added and removed to try a preemption.
Source: interpodaffinity/filtering.go of Kubernetes 1.36.
"""

from collections import Counter, defaultdict

from actors.scheduler.affinity.pod_index import PodIndex
from actors.scheduler.model.pod_terms import Labels, PodTerm
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import NodeLoad, PodView

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
Counts = defaultdict[str, Counter[str]]
"""Pods by topology key and domain."""
Nodes = dict[str, NodeLoad]


class InterPodAffinity:
    """The filter for one pod: await `count`, then ask about nodes."""

    def __init__(self, pod: PodView, index: PodIndex) -> None:
        self._pod, self._index = pod, index
        self._near, self._far = pod.rules.affinity, pod.rules.anti_affinity
        self._near_counts: Counts = defaultdict(Counter)
        """Pods that match all terms of the pod's affinity."""
        self._far_counts: list[Counter[str]] = [Counter() for _ in self._far]
        """Pods that match the pod's anti-affinity, by term and domain."""
        self._existing: Counts = defaultdict(Counter)
        """Pods whose anti-affinity matches the pod."""

    async def count(self, nodes: Nodes, turns: Turns) -> None:
        pod, index = self._pod, self._index
        labels = index.labels_of(pod.namespace)
        for use in index.anti_affinity:
            if use.matches(pod.namespace, pod.labels, labels):
                _add_each(self._existing[use.key], use.key, use.nodes, nodes)
            await turns.rest_if_due()
        for at, term in enumerate(self._far):
            for group in index.matching(term):
                _add_each(self._far_counts[at], term.topology_key, group.nodes, nodes)
            await turns.rest_if_due()
        if self._near:
            others = [term.matcher() for term in self._near[1:]]
            for group in index.matching(self._near[0]):
                here = index.labels_of(group.namespace)
                if all(matches(group.namespace, group.labels, here) for matches in others):
                    for term in self._near:
                        _add_each(self._near_counts[term.topology_key], term.topology_key, group.nodes, nodes)

    @property
    def concerns(self) -> bool:
        """True if a node may be rejected."""
        return bool(self._near or self._far or any(self._existing.values()))

    def copy(self) -> "InterPodAffinity":
        other = InterPodAffinity(self._pod, self._index)
        other._near_counts = _copied(self._near_counts)
        other._far_counts = [Counter(count) for count in self._far_counts]
        other._existing = _copied(self._existing)
        return other

    def reason(self, labels: Labels) -> str:
        """Return why a node with these labels is rejected; empty if it is not."""
        if self._near and not self._is_near(labels):
            return AFFINITY
        for term, counts in zip(self._far, self._far_counts, strict=True):
            if labels.get(term.topology_key) in counts:  # there are no counts of zero
                return ANTI_AFFINITY
        for key, counts in self._existing.items():
            if labels.get(key) in counts:
                return EXISTING_ANTI_AFFINITY
        return ""

    def change(self, pod: PodView, labels: Labels, amount: int) -> None:
        """Add a pod on a node with these labels, or remove it, by an amount of 1 or -1."""
        here = self._index.labels_of(pod.namespace)
        mine = self._index.labels_of(self._pod.namespace)
        for term in pod.rules.anti_affinity:
            if _matches(term, self._pod, mine):
                _add(self._existing[term.topology_key], labels.get(term.topology_key), amount)
        for term, counts in zip(self._far, self._far_counts, strict=True):
            if _matches(term, pod, here):
                _add(counts, labels.get(term.topology_key), amount)
        if self._near and all(_matches(term, pod, here) for term in self._near):
            for term in self._near:
                _add(self._near_counts[term.topology_key], labels.get(term.topology_key), amount)

    def _is_near(self, labels: Labels) -> bool:
        if any(term.topology_key not in labels for term in self._near):
            return False
        if all(self._near_counts[term.topology_key][labels[term.topology_key]] > 0 for term in self._near):
            return True
        return not any(self._near_counts.values()) and self._is_first()

    def _is_first(self) -> bool:
        """Return True if the pod matches its own affinity: while no pod does, it may go anywhere."""
        labels = self._index.labels_of(self._pod.namespace)
        return all(_matches(term, self._pod, labels) for term in self._near)


def _matches(term: PodTerm, pod: PodView, namespace_labels: Labels) -> bool:
    return term.matcher()(pod.namespace, pod.labels, namespace_labels)


def _add_each(counts: Counter[str], key: str, pods: Counter[str], nodes: Nodes) -> None:
    for name, amount in pods.items():
        if (load := nodes.get(name)) is not None and (domain := load.view.labels.get(key)) is not None:
            counts[domain] = counts.get(domain, 0) + amount


def _add(counts: Counter[str], domain: str | None, amount: int) -> None:
    if domain is not None:
        counts[domain] += amount
        if not counts[domain]:
            del counts[domain]


def _copied(counts: Counts) -> Counts:
    return defaultdict(Counter, {key: Counter(by_domain) for key, by_domain in counts.items()})
