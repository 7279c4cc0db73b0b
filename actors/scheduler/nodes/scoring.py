"""Scores of the nodes that fit a pod, and the choice among them. Pure.

Upstream's plugins with their default weights; each gives 0 to 100:

- NodeResourcesFit (LeastAllocated, 1): share of cpu and memory left free. Containers that request none count as if they
  requested a little, so that pods without requests spread.
- NodeResourcesBalancedAllocation (1): whether the pod brings the used shares of cpu and memory closer to each other.
- TaintToleration (3): fewest PreferNoSchedule taints that the pod does not tolerate.
- NodeAffinity (2): sum of the weights of preferred terms that match.
- ImageLocality (1): bytes of the pod's images that are on the node, see image_locality.py.
- InterPodAffinity (2) and PodTopologySpread (2): see affinity/scores.py.

Equal nodes are drawn at random.
"""

import random
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from actors.scheduler.affinity.scores import PodScores
from actors.scheduler.model.views import NodeLoad, NodeView, PodView
from actors.scheduler.nodes.node_memo import Versioned
from protocols.kube.selectors import term_matches
from protocols.kube.taints import tolerated

TAINT_TOLERATION, NODE_AFFINITY = 3, 2
"""Weights beside the two of resources, which are 1."""
FULL = 100
RESOURCES = ("cpu", "memory")


class Preferences(NamedTuple):
    """A pod's preferences about a node, before they are compared with those about others."""

    affinity: int = 0
    """Sum of the weights of the terms that match."""
    taints: int = 0
    """Number of PreferNoSchedule taints that the pod does not tolerate."""
    images: int = 0
    """Score of ImageLocality."""


INDIFFERENT = Preferences()


def node_preference(pod: PodView, node: NodeView, images: int = 0) -> Preferences:
    """Score a node by the pod's preferences; `images` is the score of ImageLocality."""
    affinity = sum(weight for weight, term in pod.preferred_terms if term_matches(term, node.name, node.labels))
    return Preferences(affinity, sum(not tolerated(taint, pod.tolerations) for taint in node.soft_taints), images)


def least_allocated_score(pod: PodView, load: NodeLoad) -> int:
    """Return the mean percentage of cpu and memory left free with the pod; 0 for a node with neither."""
    score = counted = 0
    for name in RESOURCES:
        if total := load.view.allocatable.get(name, 0):
            counted += 1
            score += max(0, total - load.presumed.get(name, 0) - pod.presumed.get(name, 0)) * FULL // total
    return score // counted if counted else 0


def balanced_allocation_score(pod: PodView, load: NodeLoad) -> int:
    """Return 75 if the pod keeps the balance of the node, more if it improves it."""
    cpu, memory = (load.view.allocatable.get(name, 0) for name in RESOURCES)
    if not cpu or not memory:
        return FULL // 2 + FULL // 4
    used_cpu, used_memory = (load.used.get(name, 0) for name in RESOURCES)
    more_cpu, more_memory = (pod.requests.get(name, 0) for name in RESOURCES)
    before = _balance(used_cpu / cpu, used_memory / memory)
    after = _balance((used_cpu + more_cpu) / cpu, (used_memory + more_memory) / memory)
    return FULL // 2 + (FULL // 2 + after - before) // 2


def _balance(cpu: float, memory: float) -> int:
    """Return FULL less the standard deviation of the two used shares."""
    return int((1 - abs(min(cpu, 1.0) - min(memory, 1.0)) / 2) * FULL)


class NodeScorer(msgspec.Struct, frozen=True):
    """Chooses the node of one pod."""

    pod: PodView
    preferences: Mapping[str, Preferences]
    """By node; nodes that are missing have none."""
    dice: random.Random
    known: Versioned = msgspec.field(default_factory=dict)
    """Scores of resources by node, as long as its version is the same."""
    others: PodScores | None = None
    """Scores by other pods."""

    def best(self, fitting: Mapping[str, NodeLoad]) -> str:
        """Return a node with the highest score; `fitting` must not be empty."""
        if len(fitting) == 1:
            return next(iter(fitting))
        scores = self.scores(fitting)
        most = max(scores.values())
        return self.dice.choice([name for name, score in scores.items() if score == most])

    def score(self, load: NodeLoad) -> int:
        return least_allocated_score(self.pod, load) + balanced_allocation_score(self.pod, load)

    def scores(self, fitting: Mapping[str, NodeLoad]) -> dict[str, int]:
        known, scores = self.known, {}
        for name, load in fitting.items():
            cached = known.get(name)
            if cached is None or cached[0] != load.version:
                cached = known[name] = (load.version, self.score(load))
            scores[name] = cached[1]
        if self.preferences:
            wanted = {name: self.preferences.get(name, INDIFFERENT) for name in fitting}
            affinity = max(raw.affinity for raw in wanted.values()) or 1
            taints = max(raw.taints for raw in wanted.values()) or 1
            for name, each in wanted.items():
                scores[name] += NODE_AFFINITY * (FULL * each.affinity // affinity)
                scores[name] += TAINT_TOLERATION * (FULL - FULL * each.taints // taints) + each.images
        if self.others is not None:
            for name, score in self.others.scores(fitting).items():
                scores[name] += score
        return scores
