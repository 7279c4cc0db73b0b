"""PodDisruptionBudgets as preemption reads them: a victim beyond a budget is the last choice, not forbidden. Pure.

Source: filterPodsWithPDBViolation of Kubernetes 1.36, by which an empty selector matches no pod.
"""

from collections.abc import Iterable, Sequence

import msgspec

from actors.scheduler.model.candidates import Victim
from protocols.kinds import views
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import namespace_of
from protocols.kube.selectors import LabelSelector, label_selector_from_object


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
