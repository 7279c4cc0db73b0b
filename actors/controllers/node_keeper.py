"""Watches nodes and their leases, and says of a node that went silent that its state is unknown."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from actors.controllers.nodes import GRACE_S, Leases, unknown_patch
from protocols.kube.client import ApiClient
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, name_of
from protocols.kube.resources import NODES

LOOK_S = GRACE_S / 4


class NodeKeeper:
    """A handler of nodes; `leases` is one of leases."""

    def __init__(self, client: ApiClient, log: logging.Logger) -> None:
        self._client = client
        self._log = log
        self.nodes: Mapping[str, Object] = {}
        """The informer's items, set once it exists."""
        self._seen = Leases()
        self.leases = LeaseHandler(self._renewed)

    def on_add(self, obj: Object) -> None:
        self._seen.known(name_of(obj), self._now())

    def on_update(self, old: Object, new: Object) -> None:
        """Only leases count: a status may be written by anybody."""

    def on_delete(self, obj: Object) -> None:
        self._seen.forget(name_of(obj))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for name in self._seen.lost(self._now()):
                await self._mark(name)

    async def _mark(self, name: str) -> None:
        node = self.nodes.get(name)
        patch = unknown_patch(node) if node else None
        if patch is None:
            return
        try:
            await self._client.patch(NODES, name, "", patch, kind="strategic", subresource="status")
            self._log.warning("node %s did not renew its lease for %g s: Ready is Unknown", name, GRACE_S)
        except (ApiAway, ApiError) as error:
            self._log.info("node %s: %s", name, error)

    def _renewed(self, lease: Object) -> None:
        if name_of(lease) in self.nodes:
            self._seen.renewed(name_of(lease), lease.get("spec", {}).get("renewTime") or "", self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class LeaseHandler:
    def __init__(self, renewed: Callable[[Object], None]) -> None:
        self._renewed = renewed

    def on_add(self, obj: Object) -> None:
        self._renewed(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._renewed(new)

    def on_delete(self, obj: Object) -> None:
        """A lease that went is one that is not renewed."""
