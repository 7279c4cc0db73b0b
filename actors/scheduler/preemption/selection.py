"""Choice of the victims on one node, and of the node. Pure.

A victim beyond a PodDisruptionBudget is the last choice, not forbidden. Source: SelectVictimsOnNode,
filterPodsWithPDBViolation, by which an empty selector matches no pod, and pickOneNodeForPreemption of Kubernetes 1.36.
"""

from collections.abc import Generator, Iterable, Sequence

import msgspec

from actors.scheduler.model.nominations import Candidate, Victim
from protocols.kinds import views
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import namespace_of
from protocols.kube.selectors import LabelSelector, label_selector_from_object

MIN_CANDIDATES, CANDIDATE_PERCENT = 100, 10
"""Nodes with victims that are enough to choose from: so many, or this share of the nodes in question."""
PRIORITY_OFFSET = 2**31
"""Added to priorities before they are summed, so that fewer victims of negative priority are better."""
Removed = frozenset[str]
"""Uids of pods that are taken away from the node."""
Selection = Generator[Removed, bool, Candidate | None]


class DisruptionBudget(msgspec.Struct, frozen=True):
    """A budget with the disruptions that it still allows."""

    namespace: str
    selector: LabelSelector
    allowed: int
    """Disruptions that the budget's controller allows now."""
    disrupted: frozenset[str]
    """Names of evicted pods, which the controller counts already."""

    def covers(self, victim: Victim) -> bool:
        matches = victim.namespace == self.namespace and bool(victim.labels) and self.selector.matches(victim.labels)
        return matches and victim.name not in self.disrupted


def budgets_of(objects: Iterable[views.PodDisruptionBudget]) -> list[DisruptionBudget]:
    """Return the budgets that can match a pod; others, and those that cannot be read, are left out."""
    return [budget for budget in map(_budget, objects) if budget is not None and budget.selector.requirements]


def _budget(obj: views.PodDisruptionBudget) -> DisruptionBudget | None:
    try:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        selector = label_selector_from_object(spec.get("selector") or {})
        allowed, disrupted = int(status.get("disruptionsAllowed") or 0), status.get("disruptedPods") or {}
        return DisruptionBudget(namespace_of(obj), selector, allowed, frozenset(disrupted))
    except (SelectorInvalid, TypeError, ValueError, AttributeError):
        return None


def violating(victims: Sequence[Victim], budgets: Sequence[DisruptionBudget]) -> frozenset[str]:
    """Return the uids of victims past a budget, if all of them went in this order."""
    left = [budget.allowed for budget in budgets]
    uids = set()
    for victim in victims:
        for at, budget in enumerate(budgets):
            if budget.covers(victim):
                left[at] -= 1
                if left[at] < 0:
                    uids.add(victim.uid)
    return frozenset(uids)


def candidate_count(nodes: int) -> int:
    """Return how many nodes with candidates are enough, as upstream's defaults have it."""
    return min(nodes, max(MIN_CANDIDATES, nodes * CANDIDATE_PERCENT // 100))


def importance(victim: Victim) -> tuple[int, float, str, str]:
    """Sort key, the most important first: higher priority, then running for longer.

    Starts are known to the second: of those in one second the pod that was created earlier comes first.
    """
    return (-victim.priority, victim.started, victim.created, victim.uid)


def select_victims(node: str, potential: Iterable[Victim], budgets: Sequence[DisruptionBudget]) -> Selection:
    """Ask whether the preemptor fits with some pods removed, and return the victims; None if it never fits.

    A generator: it yields sets of uids to remove and is sent the answers. All potential victims are removed first.
    Then one after the other is put back if the preemptor still fits: first those beyond a budget, the most important
    first. While it fits, twice as many are put back at a time, so that thousands cost a few questions for each victim.
    """
    ordered = sorted(potential, key=importance)
    removed = frozenset(victim.uid for victim in ordered)
    if not (yield removed):
        return None
    past_budget = violating(ordered, budgets)
    waiting = [victim.uid for victim in sorted(ordered, key=lambda each: each.uid not in past_budget)]
    at, count = 0, 1
    while at < len(waiting):
        back = waiting[at : at + count]
        if (yield removed.difference(back)):
            removed, at, count = removed.difference(back), at + len(back), 2 * count
        elif len(back) > 1:
            count = len(back) // 2
        else:
            at += 1
    victims = tuple(victim for victim in ordered if victim.uid in removed)
    return Candidate(node, victims, len(past_budget & removed))


def cost(candidate: Candidate) -> tuple[int, int, int, int, float]:
    """Return the cost of a preemption, to compare part by part.

    The parts: violated budgets, highest priority, sum of priorities, number of victims, and the earliest start of the
    victims with the highest priority, of which the latest is best.
    """
    victims = candidate.victims
    highest = max((victim.priority for victim in victims), default=-PRIORITY_OFFSET)
    earliest = min((victim.started for victim in victims if victim.priority == highest), default=0.0)
    total = sum(victim.priority + PRIORITY_OFFSET for victim in victims)
    return (candidate.violations, highest, total, len(victims), -earliest)


def best(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the cheapest candidate, the first of equals."""
    return min(candidates, key=cost, default=None)
