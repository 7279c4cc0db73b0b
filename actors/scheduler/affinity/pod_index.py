"""Placed pods by what rules about other pods ask of them: namespace and labels; and the rules they have themselves.

Pods of one workload have equal labels and equal terms, so a rule is matched with each workload, not with each pod.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from actors.scheduler.model.pod_terms import NO_RULES, Labels, PodTerm
from actors.scheduler.model.views import PodView
from protocols.kube.selectors import LabelSelector

HARD_AFFINITY_WEIGHT = 1
"""Weight in scores of a placed pod's required affinity to the pod that is scheduled (upstream's default)."""
NO_LABELS: Labels = {}


class PodGroup:
    """Placed pods of a namespace with equal labels."""

    __slots__ = ("labels", "namespace", "nodes", "owner", "terminating")

    def __init__(self, pod: PodView) -> None:
        self.namespace, self.labels = pod.namespace, pod.labels
        self.owner, self.terminating = pod.owner, pod.terminating
        self.nodes = Counter[str]()
        """Number of pods by node."""


class TermUse:
    """A term of placed pods."""

    __slots__ = ("key", "matches", "nodes", "pods")

    def __init__(self, term: PodTerm) -> None:
        self.key, self.matches = term.topology_key, term.matcher()
        self.nodes = Counter[str]()
        """Number of pods by node, or sum of their weights."""
        self.pods = 0


class _TermUses:
    def __init__(self) -> None:
        self._uses: dict[PodTerm, TermUse] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def __iter__(self) -> Iterator[TermUse]:
        return iter(list(self._uses.values()))

    def add(self, term: PodTerm, node: str, weight: int = 1) -> None:
        use = self._uses.get(term) or self._uses.setdefault(term, TermUse(term))
        use.nodes[node] += weight
        use.pods += 1

    def remove(self, term: PodTerm, node: str, weight: int = 1) -> None:
        use = self._uses[term]
        _take(use.nodes, node, weight)
        use.pods -= 1
        if not use.pods:
            del self._uses[term]


class PodIndex:
    """Placed pods in groups with equal namespace, labels and state, each with its number of pods by node."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, PodGroup]] = {}
        """By namespace."""
        self.anti_affinity = _TermUses()
        """Required anti-affinity of placed pods."""
        self.preferences = _TermUses()
        """Other affinity of placed pods, with its weights."""
        self.namespaces: dict[str, Labels] = {}
        """Labels of namespaces."""

    def add(self, pod: PodView, node: str) -> None:
        groups = self._groups.setdefault(pod.namespace, {})
        group = groups.get(pod.group) or groups.setdefault(pod.group, PodGroup(pod))
        group.nodes[node] += 1
        if pod.rules is not NO_RULES:
            self._each_term(pod, node, _TermUses.add)

    def remove(self, pod: PodView, node: str) -> None:
        groups = self._groups[pod.namespace]
        group = groups[pod.group]
        _take(group.nodes, node, 1)
        if not group.nodes:
            del groups[pod.group]
        if not groups:
            del self._groups[pod.namespace]
        if pod.rules is not NO_RULES:
            self._each_term(pod, node, _TermUses.remove)

    def _each_term(self, pod: PodView, node: str, change: Callable[[_TermUses, PodTerm, str, int], None]) -> None:
        for term in pod.rules.anti_affinity:
            change(self.anti_affinity, term, node, 1)
        for term in pod.rules.affinity:
            change(self.preferences, term, node, HARD_AFFINITY_WEIGHT)
        for weight, term in pod.rules.preferred:
            change(self.preferences, term, node, weight)

    def labels_of(self, namespace: str) -> Labels:
        return self.namespaces.get(namespace, NO_LABELS)

    def matching(self, term: PodTerm) -> Iterator[PodGroup]:
        """Yield the groups that the term selects."""
        matches = term.matcher()
        names = self._groups if term.namespace_selector is not None else term.namespaces & self._groups.keys()
        for namespace in names:
            labels = self.labels_of(namespace)
            for group in self._groups[namespace].values():
                if matches(namespace, group.labels, labels):
                    yield group

    def selected(self, namespace: str, selector: LabelSelector | None) -> Iterator[PodGroup]:
        """Yield the groups of a namespace, without terminating pods, whose labels match."""
        if selector is None:
            return
        matches = selector.matcher()
        for group in self._groups.get(namespace, {}).values():
            if not group.terminating and matches(group.labels):
                yield group

    def owned(self, namespace: str, owner: str) -> Iterator[PodGroup]:
        """Yield the groups of a controller's pods that are not terminating."""
        for group in self._groups.get(namespace, {}).values():
            if group.owner == owner and not group.terminating:
                yield group


def _take(counts: Counter[str], key: str, amount: int) -> None:
    counts[key] -= amount
    if not counts[key]:
        del counts[key]
