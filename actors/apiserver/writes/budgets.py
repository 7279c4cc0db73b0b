"""Evictions against PodDisruptionBudgets. Rules and messages equal upstream's.

An eviction decrements `disruptionsAllowed` at the revision that the decision rests on, so that no two API processes
grant the same disruption, and records the pod for the disruption controller.
"""

from collections.abc import Iterator

from actors.apiserver.api.errors import ApiError, Forbidden, TooManyRequests, WorkTimeout
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import RevisionConflict, Storage
from actors.apiserver.writes.owners import own_status
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object, labels_of, name_of
from protocols.kube.objects import at, fresh_copy, items
from protocols.kube.pods import is_finished, phase_of
from protocols.kube.selectors import label_selector_from_object
from protocols.kube.times import now

ATTEMPTS = 1000
"""Conflicts of one eviction: a drained node's pods are evicted at once, and one decrements the budget each time."""
MOST_DISRUPTED = 2000
"""Approved evictions that the disruption controller has not seen yet."""
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
ALLOWED = "DisruptionAllowed"


class Budgets:
    """Disruption budgets: matched from the replica, decremented in the store."""

    def __init__(self, storage: Storage, budgets: Replica) -> None:
        self._storage, self._budgets = storage, budgets

    def any_in(self, namespace: str) -> bool:
        return len(self._budgets.objects) > 0 and next(self._budgets.objects.below(f"{namespace}/"), None) is not None

    def matching(self, namespace: str, pod: Object) -> list[Stored]:
        return [stored for stored in self._budgets.objects.below(f"{namespace}/") if _selects(stored.obj, pod)]

    async def newest(self, budget: Stored) -> Stored | None:
        return await self._storage.get(self._budgets.resource, budget.key)

    async def take(self, budget: Stored, pod: str, *, dry_run: bool) -> None:
        """Decrement a budget's disruptionsAllowed. Raises TooManyRequests, Forbidden, WorkTimeout.

        `budget` is as the store has it. A budget that is deleted meanwhile rejects nothing.
        """
        for _ in range(ATTEMPTS):
            granted = decremented(fresh_copy(budget.obj), pod)
            if dry_run:
                return
            try:
                row = self._budgets.resource
                await self._storage.update(row, budget, encode_object(own_status(row, granted, budget.obj)))
                return
            except RevisionConflict as changed:
                if changed.current is None:
                    return
                budget = changed.current
        raise WorkTimeout(f'Timeout: couldn\'t update PodDisruptionBudget "{budget.name}" due to conflicts')


def _selects(budget: Object, pod: Object) -> bool:
    selector = at(budget, "spec", "selector")
    if not isinstance(selector, dict):
        return False
    try:
        return label_selector_from_object(selector).matches(labels_of(pod))
    except SelectorInvalid:
        return False


def ignores_budgets(pod: Object) -> bool:
    """Return True for a pod that runs nothing, or is being deleted."""
    return is_finished(pod) or phase_of(pod) == "Pending" or bool(at(pod, "metadata", "deletionTimestamp"))


def may_become_ready(pod: Object) -> bool:
    """Return True if a budget may count the pod before its deletion, which must then fail."""
    return not is_finished(pod) and not at(pod, "metadata", "deletionTimestamp")


def spares_unready(budget: Object, pod: Object) -> bool:
    """Return True if the budget lets this pod go without a disruption, because it is not ready."""
    if any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in items(pod, "status", "conditions")
    ):
        return False
    if at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = (at(budget, "status", field) or 0 for field in ("currentHealthy", "desiredHealthy"))
    return bool(healthy >= desired > 0)


def decremented(budget: Object, pod: str) -> Object:
    """Return the budget after the eviction of a pod. Raises TooManyRequests, Forbidden."""
    status, name = budget.get("status") or {}, name_of(budget)
    if (status.get("observedGeneration") or 0) < (at(budget, "metadata", "generation") or 0):
        raise not_processed(name)
    left = status.get("disruptionsAllowed") or 0
    if left < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MOST_DISRUPTED:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if not left:
        raise _violation(_denial(name, status))
    status["disruptionsAllowed"] = left - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now()}
    if left == 1:
        status["conditions"] = list(_exhausted(status))
    return budget


def not_processed(name: str) -> TooManyRequests:
    """Return the 429 for a budget whose status does not count its newest spec yet."""
    return _violation(f"The disruption budget {name} is still being processed by the server.", retry_after=10)


def _violation(message: str, retry_after: int = 0) -> TooManyRequests:
    return TooManyRequests(VIOLATES, {"causes": [{"reason": "DisruptionBudget", "message": message}]}, retry_after)


def _forbidden(name: str, why: str) -> ApiError:
    details: Object = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
    return Forbidden(f'poddisruptionbudget.policy "{name}" is forbidden: {why}', details)


def _denial(name: str, status: Object) -> str:
    """Return why the budget allows no disruption. The counts of a budget that failed to sync are not shown."""
    held = next((condition for condition in items(status, "conditions") if condition.get("type") == ALLOWED), {})
    message, reason = held.get("message") or "", held.get("reason") or ""
    reported = held.get("status") == "False" and bool(message)
    refuses = f"The disruption budget {name} does not allow evicting pods currently"
    if reported and reason == "SyncFailed":
        return f"{refuses} because it failed sync: {message}"
    healthy, desired = (status.get(field) or 0 for field in ("currentHealthy", "desiredHealthy"))
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"{refuses} ({reason}): {message}" if reported else refuses


def _exhausted(status: Object) -> Iterator[Object]:
    generation = status.get("observedGeneration") or 0
    has_condition = False
    for condition in items(status, "conditions"):
        if condition.get("type") != ALLOWED:
            yield condition
            continue
        has_condition = True
        since = condition.get("lastTransitionTime") if condition.get("status") == "False" else ""
        yield _condition(generation, since or now())
    if not has_condition:
        yield _condition(generation, now())


def _condition(generation: int, since: str) -> Object:
    condition = {"type": ALLOWED, "status": "False", "observedGeneration": generation, "lastTransitionTime": since}
    return {**condition, "reason": "InsufficientPods", "message": ""}
