"""A whole store in one object, with or without an actor around it."""

from collections.abc import Callable, Coroutine
from typing import Any

from actors.store.compaction import Compactor
from actors.store.core import Core
from actors.store.kv import KvService
from actors.store.lease import LeaseService
from actors.store.maintenance import MaintenanceService
from actors.store.options import StoreOptions
from actors.store.server import Server, Services
from actors.store.watch import WatchService

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
GRACE = 0.5


class Store:
    """Opens the file, serves the etcd API, runs the background work through `spawn`."""

    def __init__(self, options: StoreOptions) -> None:
        """Raises StoreCorrupt, StoreUnusable."""
        self.core = Core(options)
        self._compactor = Compactor(self.core)
        self._lease = LeaseService(self.core)
        kv = KvService(self.core, self._compactor)
        services = Services(kv, WatchService(self.core), self._lease, MaintenanceService(self.core))
        self._server = Server(options, services)

    @property
    def address(self) -> str:
        return self._server.address

    async def start(self, spawn: Spawn) -> None:
        """Raises StoreUnusable. Serving when this returns."""
        spawn(self.core.writer.run(), "writer")
        await self._server.start()
        self.core.address = self._server.address
        spawn(self._compactor.run(), "compactor")
        spawn(self._lease.run(), "leases")

    async def stop(self) -> None:
        await self._server.stop(GRACE)
        await self.core.close()
