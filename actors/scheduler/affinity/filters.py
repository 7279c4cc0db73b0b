"""The filters about other pods together, in upstream's order: topology spread, then affinity."""

from collections.abc import Iterable

from actors.scheduler.affinity.inter_pod import ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, InterPodAffinity
from actors.scheduler.affinity.pod_index import PodIndex
from actors.scheduler.affinity.spread import SPREAD, TopologySpread
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import NodeLoad, NodeView, PodView

CURABLE = frozenset((ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, SPREAD))
"""Reasons that the removal of pods may end (upstream's code Unschedulable)."""
TURN_S = 0.01
"""Seconds of counting between two yields to the event loop."""


class PodFilters:
    """The rules between placed pods and one pending pod. `reason` judges a node without waiting."""

    def __init__(self, spread: TopologySpread, affinity: InterPodAffinity) -> None:
        self._spread, self._affinity = spread, affinity

    @classmethod
    def of(cls, pod: PodView, index: PodIndex) -> "PodFilters":
        return cls(TopologySpread(pod, index), InterPodAffinity(pod, index))

    def copy(self) -> "PodFilters":
        return PodFilters(self._spread.copy(), self._affinity.copy())

    def reason(self, node: NodeView) -> str:
        """Return why the node is rejected; empty if it is not."""
        why = self._spread.reason(node) if self._spread.concerns else ""
        return why or self._affinity.reason(node.labels)

    def add(self, pod: PodView, node: NodeView) -> None:
        """Count a pod that is not placed, as if it were."""
        self._change(pod, node, 1)

    def remove(self, pod: PodView, node: NodeView) -> None:
        """Stop counting a placed pod."""
        self._change(pod, node, -1)

    def _change(self, pod: PodView, node: NodeView, amount: int) -> None:
        self._spread.change(pod, node, amount)
        self._affinity.change(pod, node.labels, amount)

    async def count(self, nodes: dict[str, NodeLoad]) -> bool:
        """Count the placed pods, in turns. Return True if a node may be rejected."""
        turns = Turns(TURN_S, 0.0)
        await self._spread.count(nodes, turns)
        await self._affinity.count(nodes, turns)
        return self._spread.concerns or self._affinity.concerns


def with_pods(
    filters: PodFilters | None, pod: PodView, index: PodIndex, added: Iterable[PodView], node: NodeView
) -> PodFilters | None:
    """Return the filters as if some pods were on a node; None if nothing is rejected then either."""
    added = list(added)
    if filters is None and not any(other.rules.anti_affinity for other in added):
        return None
    changed = filters.copy() if filters is not None else PodFilters.of(pod, index)
    for other in added:
        changed.add(other, node)
    return changed


async def pod_filters(pod: PodView, index: PodIndex, nodes: dict[str, NodeLoad]) -> PodFilters | None:
    """Return the filters for a pod; None if no placed pod matters to it."""
    rules = pod.rules
    if not (rules.affinity or rules.anti_affinity or rules.spread or len(index.anti_affinity)):
        return None
    filters = PodFilters.of(pod, index)
    return filters if await filters.count(nodes) else None
