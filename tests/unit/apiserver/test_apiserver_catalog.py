"""Resources that go while requests for their objects wait."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace
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
from protocols.kinds.served.row import Served, Table

VERSION = Version("v1", True, True, {"type": "object"})


class _Bus:
    """Follows nothing."""

    def follow(self, **stream: Any) -> SimpleNamespace:
        return SimpleNamespace(refetch=lambda: None)

    def unfollow(self, following: Any) -> None:
        """Nothing was followed."""


def rows_of(*versions: Version) -> list[Served]:
    return resources_of(Definition("ks.a.b", "", 1, "a.b", True, Names(kind="K", plural="ks"), versions, True, False))


def served() -> Catalog:
    parts = CatalogOptions(
        bus=cast(Bus, _Bus()),
        meter_of=cast(Any, lambda row: None),
        progress_of=lambda row: lambda revision: None,
        own_writes_of=lambda row: OwnWrites(),
    )
    return Catalog(Table(()), parts)


async def test_one_of_many_resources_that_goes_is_found_in_linear_time() -> None:
    """Each was compared with each: of a definition with 9,000 versions, any change took 2 s."""
    catalog, rows = served(), rows_of(*(replace(VERSION, name=f"v{number}") for number in range(10_000)))
    catalog.serve(rows)
    began = time.process_time()
    catalog.serve(rows[:-1])
    assert time.process_time() - began < 0.5
    assert catalog.hubs.keys() == {row.gvr for row in rows[:-1]}


async def test_request_of_a_resource_that_goes_while_it_waits_is_not_found() -> None:
    catalog, rows = served(), rows_of(VERSION)
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
