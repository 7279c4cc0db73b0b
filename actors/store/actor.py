"""The embedded store: the only process that holds API objects durably, behind the etcd v3 API.

It owns ROOT/store/objects.sqlite, the socket ROOT/run/store.sock and a loopback port with mutual TLS, which trusts the
store's own CA alone. By kill -9 at any moment it loses nothing that was acknowledged: a write is answered, and told to
watches, only after its commit is on disk. What waited for a commit is lost, and its callers see UNAVAILABLE.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from actors.store.engine.compactor import Compactor
from actors.store.engine.core import Core, StoreCollector
from actors.store.file.upkeep import Reserve
from actors.store.model.options import StoreOptions
from actors.store.server.grpc_server import Server, Services
from actors.store.services.kv import KvService
from actors.store.services.lease import LeaseService
from actors.store.services.maintenance import MaintenanceService
from actors.store.services.watch import WatchService
from protocols.actor import Context, run_actor
from protocols.layout import Layout
from protocols.settings import Settings

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


def store_options(settings: Settings, layout: Layout) -> StoreOptions:
    cert, key = layout.etcd_server
    return StoreOptions(
        directory=layout.store,
        socket=layout.store_socket,
        address_file=layout.run / "store.addr",
        ca=layout.etcd_ca,
        cert=cert,
        key=key,
        port=settings.store_port,
        sync=settings.store_sync,
        quota_bytes=settings.store_quota_bytes,
    )


class StoreActor:
    """Opens the file and serves; there is nobody to wait for."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store: Store | None = None

    async def start(self) -> None:
        reserve = Reserve(self._context.layout.store / "reserve")
        reserve.release()
        store = Store(store_options(self._context.settings, self._context.layout))
        self._store = store
        self._context.registry.register(StoreCollector(store.core))
        await store.start(self._context.spawn)
        reserve.keep()
        where = f"etcd API on {store.address}" if store.address else "unix socket only: no certificates for TCP"
        self._context.ready(f"revision {store.core.index.revision}, {len(store.core.index)} keys, {where}")

    async def stop(self) -> None:
        if self._store is not None:
            await self._store.stop()


def main(argv: list[str] | None = None) -> None:
    run_actor("store", StoreActor, argv)


if __name__ == "__main__":
    main()
