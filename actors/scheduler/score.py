"""Which of the fitting nodes is best: the one with the largest share left over (upstream's least allocated). Pure."""

from collections.abc import Mapping

from actors.scheduler.types import NodeLoad, PodView

NONE: Mapping[str, int] = {}


def left_over(pod: PodView, load: NodeLoad) -> float:
    """Mean share of cpu and memory that stays free once `pod` is there; 0.0 for a node that has neither."""
    shares = []
    for name in ("cpu", "memory"):
        if total := load.view.allocatable.get(name, 0):
            shares.append((total - load.used.get(name, 0) - pod.requests.get(name, 0)) / total)
    return sum(shares) / len(shares) if shares else 0.0


def best(pod: PodView, fitting: Mapping[str, NodeLoad], scores: Mapping[str, int] = NONE) -> str:
    """Name of the best node; `scores` (the larger the better) come before room, and equal ones are told apart by name,
    so that the choice can be repeated."""
    return max(fitting, key=lambda name: (scores.get(name, 0), left_over(pod, fitting[name]), name))
