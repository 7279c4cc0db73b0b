"""Leases of objects that expire, in a store that has lost them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.apiserver.api.stored import Stored
from actors.apiserver.storage.metrics import StoreMetrics
from actors.apiserver.storage.storage import Storage
from actors.apiserver.storage.stores import Stores
from protocols.etcd.errors import LeaseNotFound
from protocols.etcd.types import Granted, Written
from protocols.kinds.core.config import CONFIGMAPS
from protocols.kinds.core.events import EVENTS
from protocols.kinds.served.row import Served

RAW = b'{"metadata":{"name":"a","namespace":"d"}}'


class RestoredStore:
    """Knows the leases of its own history only."""

    def __init__(self) -> None:
        self.granted, self.written = 0, list[int]()
        self._leases = set[int]()

    async def lease_grant(self, ttl: int) -> Granted:
        self.granted += 1
        self._leases.add(self.granted)
        return Granted(self.granted, ttl)

    def restore(self) -> None:
        self._leases.clear()

    async def create_if_absent(self, key: bytes, raw: bytes, lease: int, *_: Any) -> Written:
        if lease and lease not in self._leases:
            raise LeaseNotFound("requested lease not found")
        self.written.append(lease)
        return Written(True, len(self.written), None)

    async def update_if_revision(self, key: bytes, raw: bytes, rv: int, lease: int, *_: Any) -> Written:
        return await self.create_if_absent(key, raw, lease)


@pytest.mark.parametrize(("row", "leases"), [(EVENTS, [1, 1, 2, 2, 3]), (CONFIGMAPS, [0, 0, 0, 0, 0])])
async def test_write_after_a_restored_backup_takes_a_new_lease(row: Served, leases: list[int]) -> None:
    store = RestoredStore()
    stores = SimpleNamespace(place=lambda row: (0, store))
    storage = Storage(cast(Stores, stores), StoreMetrics(CollectorRegistry()))
    storage.on_written = lambda *_: None
    await storage.create(row, "d/a", RAW)
    await storage.create(row, "d/b", RAW)
    store.restore()
    await storage.create(row, "d/c", RAW)
    await storage.create(row, "d/d", RAW)
    store.restore()
    await storage.update(row, Stored("d/a", 1, RAW), RAW)
    assert store.written == leases
