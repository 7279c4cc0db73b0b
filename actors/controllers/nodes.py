"""When a node counts as lost: its lease was not renewed. Pure; time is this machine's monotonic clock.

Renewals are timed by when they were seen here, not by what the lease says, so that no clock but ours matters.
"""

from dataclasses import dataclass, field

from protocols.kube.meta import Object, condition
from protocols.kube.times import now

GRACE_S = 40.0


@dataclass
class Leases:
    seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Node -> (renewTime as written, when it was first seen here)."""

    def renewed(self, node: str, written: str, at: float) -> None:
        if self.seen.get(node, ("", 0.0))[0] != written:
            self.seen[node] = (written, at)

    def known(self, node: str, at: float) -> None:
        """A node without a lease has the grace period from now to write one."""
        self.seen.setdefault(node, ("", at))

    def forget(self, node: str) -> None:
        self.seen.pop(node, None)

    def lost(self, at: float) -> list[str]:
        return [node for node, (_, seen) in self.seen.items() if at - seen >= GRACE_S]


def unknown_patch(node: Object) -> Object | None:
    """Strategic merge patch that says Ready Unknown; None when the node says so already."""
    known = condition(node, "Ready") or {}
    if known.get("status") == "Unknown":
        return None
    entry = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "The node's lease was not renewed in time: its podworker is away.",
        "lastTransitionTime": now(),
    }
    return {"status": {"conditions": [entry]}}
