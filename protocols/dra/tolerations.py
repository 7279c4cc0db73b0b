"""Which device taints a request tolerates: one matcher for allocation and for eviction. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from protocols.dra.types import NO_EXECUTE, NO_SCHEDULE, Taint

HARD = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep a device from being allocated; None and unknown ones only inform."""

Toleration = Mapping[str, Any]
"""As claims and their allocations have it."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Empty effect or key means any; an operator that is not known tolerates nothing."""
    if (toleration.get("effect") or taint.effect) != taint.effect:
        return False
    if (toleration.get("key") or taint.key) != taint.key:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(operator == "Equal" and (toleration.get("value") or "") == taint.value)


def usable(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Every hard taint is tolerated; for how long does not matter to allocation."""
    tolerations = tuple(tolerations)
    return all(any(tolerates(each, taint) for each in tolerations) for taint in taints if taint.effect in HARD)


def seconds_borne(taint: Taint, tolerations: Iterable[Toleration]) -> float | None:
    """How long after its time a NoExecute taint is borne; None = for ever, or it is no such taint."""
    if taint.effect != NO_EXECUTE:
        return None
    matching = [each for each in tolerations if tolerates(each, taint)]
    if not matching:
        return 0.0
    limits = [each["tolerationSeconds"] for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, float(min(limits))) if limits else None
