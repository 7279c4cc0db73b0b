"""Resources that go while requests for their objects wait."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.apiserver.api.errors import NotFound
from actors.apiserver.api.request.target import Target
from actors.apiserver.reads.metrics import ReadMetrics
from actors.apiserver.reads.reader import Reader
from actors.apiserver.replica.own_writes import OwnWrites
from actors.apiserver.storage.storage import Storage
from actors.apiserver.watch.catalog import Catalog, CatalogOptions
from protocols.bus import Bus
from protocols.kinds.custom.definitions.definition import Definition, Names, Version
from protocols.kinds.custom.serving.resources import resources_of
from protocols.kinds.served.row import Table

VERSION = Version("v1", True, True, {"type": "object"})


class _Bus:
    """Follows nothing."""

    def follow(self, **stream: Any) -> SimpleNamespace:
        return SimpleNamespace(refetch=lambda: None)

    def unfollow(self, following: Any) -> None:
        """Nothing was followed."""


async def test_request_of_a_resource_that_goes_while_it_waits_is_not_found() -> None:
    rows = resources_of(Definition("ks.a.b", "", 1, "a.b", True, Names(kind="K", plural="ks"), (VERSION,), True, False))
    parts = CatalogOptions(
        bus=cast(Bus, _Bus()),
        meter_of=cast(Any, lambda row: None),
        progress_of=lambda row: lambda revision: None,
        own_writes_of=lambda row: OwnWrites(),
    )
    catalog = Catalog(Table(()), parts)
    catalog.serve(rows)
    row, revision = rows[0], asyncio.Event()

    class _Slow:
        async def revision(self, resource: Any) -> int:
            await revision.wait()
            return 1

    reader = Reader(cast(Storage, _Slow()), catalog.replicas, ReadMetrics(CollectorRegistry()))
    catalog.replicas[row.store].on_snapshot([], 1)
    listing = asyncio.create_task(reader.fresh(row))
    await asyncio.sleep(0)
    catalog.serve(())
    revision.set()
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await listing
    with pytest.raises(NotFound):
        await reader.get(Target(row, "get", "ns", "a"), 0)
    with pytest.raises(NotFound):
        catalog.hubs[row.gvr]
