"""store: hold API objects durably in one SQLite file, behind the etcd v3 API.

The only process that owns durable API objects: ROOT/store/objects.sqlite, the sockets ROOT/run/store.sock and
store.door, and a loopback port with mutual TLS that trusts the store's own CA only. On kill -9 no acknowledged write is
lost: a write is answered, and sent to watches, only after its commit is on disk. Writes that waited for a commit are
lost, and their callers get UNAVAILABLE.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.store.engine.compactor import Compactor
from actors.store.engine.core import Core, StoreCollector
from actors.store.file.upkeep import DiskReserve
from actors.store.model.options import StoreOptions
from actors.store.rpc.kv import KvService
from actors.store.rpc.lease import LeaseService
from actors.store.rpc.maintenance import MaintenanceService
from actors.store.rpc.watch import WatchService
from actors.store.server.grpc_server import Services, StoreServer
from protocols.actor import Context, run_actor
from protocols.process.layout import Layout
from protocols.process.settings import Settings

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
GRACE = 0.5
NOTE_S = 3.0
"""Seconds between two reports of revision and keys in `nodeplane status`."""


class Store:
    """A whole store, also usable without an actor.

    The constructor opens the file and raises StoreCorrupt or StoreUnusable; `start` serves and raises StoreUnusable.
    """

    def __init__(self, options: StoreOptions) -> None:
        self.core = Core(options)
        self._compactor = Compactor(self.core)
        self._lease = LeaseService(self.core)
        kv = KvService(self.core, self._compactor)
        services = Services(kv, WatchService(self.core), self._lease, MaintenanceService(self.core))
        self._server = StoreServer(options, services)

    @property
    def address(self) -> str:
        return self._server.address

    async def start(self, spawn: Spawn) -> None:
        """Serve, and run the background work through `spawn`."""
        spawn(self.core.writer.run(), "writer")
        await self._server.start()
        self.core.address = self._server.address
        spawn(self._compactor.run(), "compactor")
        spawn(self._lease.run(), "leases")

    async def stop(self) -> None:
        await self._server.stop(GRACE)
        await self.core.close()


def store_options(settings: Settings, layout: Layout) -> StoreOptions:
    """Return the options of the store from the plane's settings."""
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
    """Becomes ready at once: the store waits for no other process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store: Store | None = None

    async def start(self) -> None:
        reserve = DiskReserve(self._context.layout.store / "reserve")
        reserve.release()
        store = Store(store_options(self._context.settings, self._context.layout))
        self._store = store
        self._context.registry.register(StoreCollector(store.core))
        await store.start(self._context.spawn)
        reserve.create()
        self._context.ready(_note_of(store))
        self._context.spawn(self._keep_note(store), "note")

    async def _keep_note(self, store: Store) -> None:
        while True:
            await asyncio.sleep(NOTE_S)
            self._context.note(_note_of(store))

    async def stop(self) -> None:
        if self._store is not None:
            await self._store.stop()


def _note_of(store: Store) -> str:
    where = f"etcd API on {store.address}" if store.address else "unix socket only: no certificates for TCP"
    return f"revision {store.core.index.revision}, {len(store.core.index)} keys, {where}"


def main(argv: list[str] | None = None) -> None:
    run_actor("store", StoreActor, argv)


if __name__ == "__main__":
    main()
