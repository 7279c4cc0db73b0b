"""The EvictionInProgress condition of DeviceTaintRules, as upstream 1.36 has it. Pure."""

from dataclasses import dataclass

from protocols.dra.types import NO_EFFECT, NO_EXECUTE, Rule
from protocols.kube.meta import Object, condition

CONDITION = "EvictionInProgress"
EVERY_S = 10.0
"""Between two writes to one rule while pods are being evicted."""


@dataclass(frozen=True)
class Figures:
    """What a rule does, or with effect None would do."""

    pending: int = 0
    namespaces: int = 0
    evicted: int = 0
    published: int = 0
    allocated: int = 0


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def condition_for(rule: Rule, figures: Figures, known: Object, stamp: str) -> Object:
    """`known`: the rule as the API has it."""
    reason, status, message = _told(rule.taint.effect, figures)
    before = condition(known, CONDITION) or {}
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": rule.generation,
        "lastTransitionTime": since or stamp,
    }


def _told(effect: str, figures: Figures) -> tuple[str, str, str]:
    if effect == NO_EFFECT:
        return "NoEffect", "False", _dry_run(figures)
    if effect != NO_EXECUTE:
        return "OtherEffect", "False", "Eviction only happens for the NoExecute effect."
    if figures.pending:
        need = "need" if figures.pending > 1 else "needs"
        different = "different namespaces" if figures.namespaces > 1 else "namespace"
        message = f"{counted(figures.pending, 'pod')} {need} to be evicted in {figures.namespaces} {different}."
        return "PodsPendingEviction", "True", message
    if figures.evicted:
        return "Completed", "False", f"{counted(figures.evicted, 'pod')} evicted since starting the controller."
    return "NotStarted", "False", ""


def _dry_run(figures: Figures) -> str:
    namespaces = counted(figures.namespaces, "namespace")
    return (
        f"{counted(figures.published, 'published device')} selected."
        f" {counted(figures.allocated, 'allocated device')} selected."
        f" {counted(figures.pending, 'pod')} would be evicted in {namespaces} if the effect was NoExecute."
        " This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )


def due(rule: Rule, wanted: Object, known: Object, last: float, now: float) -> float | None:
    """Seconds until the condition is to be written: at once after a change of the rule, else not too often; None =
    never, as things are."""
    before = condition(known, CONDITION) or {}
    if before.get("observedGeneration") != rule.generation:
        return 0.0
    same = all(before.get(part) == wanted[part] for part in ("status", "reason", "message"))
    if same or rule.taint.effect == NO_EFFECT:
        return None
    return max(0.0, last + EVERY_S - now)
