"""Find nodes that stopped renewing their lease, and the conditions to report for them. Pure.

Renewals are timed by when they were observed on this machine's monotonic clock, not by the time in the lease, so clock
skew between machines does not matter.
"""

import msgspec

from protocols.kinds import views
from protocols.kube.meta import Object, condition
from protocols.kube.times import now

CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that a node's agent reports, all of which are Unknown without it."""


class NodeLeases(msgspec.Struct):
    """Last renewals of all nodes; times are monotonic seconds."""

    grace_s: float
    seen: dict[str, tuple[str, float]] = msgspec.field(default_factory=dict)
    """Node -> (renewTime as written, when it was first observed here)."""

    def renewed(self, node: str, written: str, at: float) -> None:
        if self.seen.get(node, ("", 0.0))[0] != written:
            self.seen[node] = (written, at)

    def known(self, node: str, at: float) -> None:
        """Give a node without a lease the grace period to write one."""
        self.seen.setdefault(node, ("", at))

    def forget(self, node: str) -> None:
        self.seen.pop(node, None)

    def lost(self, at: float) -> list[str]:
        return [node for node, (_, seen) in self.seen.items() if at - seen >= self.grace_s]


def unknown_patch(node: views.Node) -> Object | None:
    """Return the strategic merge patch that sets the agent's conditions to Unknown; None when they already are."""
    entries = [entry for kind in CONDITIONS if (entry := _unknown(kind, condition(node, kind)))]
    return {"status": {"conditions": entries}} if entries else None


def _unknown(kind: str, known: views.Condition | None) -> Object | None:
    if known is not None and known.get("status") == "Unknown":
        return None
    reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
    if known is None:
        reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
    return {"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now()}
