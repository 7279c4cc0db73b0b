"""Node lifecycle controller: set Ready to Unknown on nodes that stopped renewing their lease.

NodeLeases is pure. It times renewals by when they were observed on this machine's monotonic clock, not by the time in
the lease, so clock skew between machines does not matter.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, condition, name_of
from protocols.kube.resources import NODES
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient

GRACE_S = 40.0


@dataclass
class NodeLeases:
    seen: dict[str, tuple[str, float]] = field(default_factory=dict)
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
        return [node for node, (_, seen) in self.seen.items() if at - seen >= GRACE_S]


def unknown_patch(node: Object) -> Object | None:
    """Return the strategic merge patch that sets Ready to Unknown; None when it already is."""
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


LOOK_S = GRACE_S / 4


class NodeController:
    """Handle nodes; the attribute `leases` is the handler for their leases."""

    def __init__(self, client: ApiClient, log: logging.Logger) -> None:
        self._client = client
        self._log = log
        self.nodes: Mapping[str, Object] = {}
        """The informer's store, set when it exists."""
        self._leases = NodeLeases()
        self.leases = _LeaseHandler(self._renewed)

    def on_add(self, obj: Object) -> None:
        self._leases.known(name_of(obj), self._now())

    def on_update(self, old: Object, new: Object) -> None:
        """Ignore updates: only leases prove that a node's own agent is running."""

    def on_delete(self, obj: Object) -> None:
        self._leases.forget(name_of(obj))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for name in self._leases.lost(self._now()):
                await self._mark(name)

    async def _mark(self, name: str) -> None:
        node = self.nodes.get(name)
        patch = unknown_patch(node) if node else None
        if patch is None:
            return
        try:
            await self._client.patch(NODES, name, "", patch, kind="strategic", subresource="status")
            self._log.warning("node lease expired, set Ready to Unknown node=%s grace=%gs", name, GRACE_S)
        except (ApiAway, ApiError) as error:
            self._log.info("node status not written node=%s error=%s", name, error)

    def _renewed(self, lease: Object) -> None:
        if name_of(lease) in self.nodes:
            self._leases.renewed(name_of(lease), lease.get("spec", {}).get("renewTime") or "", self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _LeaseHandler:
    def __init__(self, renewed: Callable[[Object], None]) -> None:
        self._renewed = renewed

    def on_add(self, obj: Object) -> None:
        self._renewed(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._renewed(new)

    def on_delete(self, obj: Object) -> None:
        """Ignore deletions: a deleted lease is simply no longer renewed."""
