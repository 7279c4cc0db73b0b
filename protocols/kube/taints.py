"""Taints of nodes and devices, and the tolerations of pods and claims. Pure.

Nodes and devices share one rule. Unlike those of nodes, taints of devices may have the effect None.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from protocols.kinds import views
from protocols.kube.meta import condition

NO_EFFECT, NO_SCHEDULE, NO_EXECUTE = "None", "NoSchedule", "NoExecute"
HARD = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep new pods away; None, PreferNoSchedule and unknown effects do not."""

Toleration = Mapping[str, Any]
"""As pods, claims and allocations have it."""


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node or of a device."""

    key: str
    value: str
    effect: str
    added: str = ""
    """timeAdded as the API has it; empty if unknown."""


UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
"""Taint of every node with `spec.unschedulable`, whether its controller has written it or not."""


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
"""Keys of the taints of nodes whose condition Ready is False or Unknown."""


def not_ready_taint(node: views.Node) -> Taint | None:
    """Return the taint of a node that is not Ready, whether its controller has written it or not; None if it is."""
    status = (condition(node, "Ready") or {}).get("status")
    if status == "True":
        return None
    return Taint(UNREACHABLE if status == "Unknown" else NOT_READY, "", NO_SCHEDULE)


def node_taints(node: views.Node) -> tuple[Taint, ...]:
    """Return spec.taints of a node, in order."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "") for taint in taints)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if the toleration covers the taint.

    Without effect or key it covers any; an unknown operator covers nothing.
    """
    if (toleration.get("effect") or taint.effect) != taint.effect:
        return False
    if (toleration.get("key") or taint.key) != taint.key:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(operator == "Equal" and (toleration.get("value") or "") == taint.value)


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return True if any toleration tolerates the taint; see `tolerates` for the rule."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> Taint | None:
    """Return the first taint that keeps new pods away and is not tolerated, for however long."""
    for taint in taints:
        if taint.effect in HARD and not tolerated(taint, tolerations):
            return taint
    return None


def taint_text(taint: Taint) -> str:
    """Return the taint as kubectl writes it: `KEY=VALUE:EFFECT`."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def seconds_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> float | None:
    """Return for how many seconds a NoExecute taint of a node is tolerated; None for ever, or for another effect."""
    if taint.effect != NO_EXECUTE:
        return None
    matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
    if not matching:
        return 0.0
    limits = [
        toleration["tolerationSeconds"] for toleration in matching if toleration.get("tolerationSeconds") is not None
    ]
    return max(0.0, float(min(limits))) if limits else None


def device_seconds_tolerated(taint: Taint, tolerations: Collection[Toleration]) -> float | None:
    """Return the same for a taint of a device: of devices, one toleration without seconds suffices, as upstream."""
    lasting = [toleration for toleration in tolerations if toleration.get("tolerationSeconds") is None]
    return None if tolerated(taint, lasting) else seconds_tolerated(taint, tolerations)
