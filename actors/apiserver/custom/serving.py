"""Serve the resources of established definitions, as soon as the replica shows them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.catalog import Catalog
from protocols.errors import NodeplaneError
from protocols.kinds.custom.definitions.definition import Definition, read_definition
from protocols.kinds.custom.serving.kind import priority
from protocols.kinds.custom.serving.resources import resources_of
from protocols.kinds.served.row import Served
from protocols.kinds.table import DEFINITIONS

log = logging.getLogger(__name__)
FRESH_SECONDS = 1.0
FILL_SECONDS = 5.0
"""Time a request waits for the first objects of a newly served resource."""


class _Made(NamedTuple):
    rv: int
    definition: Definition
    rows: list[Served]


class Serving:
    """Adds and removes served resources as definitions change.

    `fresh(row)` brings a replica up to date with the store; None if that is not possible.
    """

    def __init__(self, catalog: Catalog, fresh: Callable[[Served], Awaitable[Replica]] | None) -> None:
        self._catalog = catalog
        self._fresh = fresh
        self.definitions = catalog.replicas[DEFINITIONS.full_name]
        self._made: dict[str, _Made] = {}
        """By definition name. Resources stay identical while their definition is unchanged."""
        self.definitions.listen(self._on_change)

    def refresh(self) -> None:
        """Rebuild the served resources. Call it once the replica of definitions is filled; changes trigger the rest."""
        self._made = {
            stored.key: _read(stored, self._made.get(stored.key)) for stored in self.definitions.objects.below("")
        }
        rows = [row for kind in self._made.values() for row in kind.rows]
        self._catalog.serve(sorted(rows, key=lambda row: (row.group, priority(row.version), row.plural)))

    def _on_change(self, change: Change) -> None:
        self.refresh()

    async def catch_up(self) -> None:
        """Catch up with the store: another process may have accepted a definition that this one has not seen yet.

        While the store or the watch cache is unavailable, the known definitions are served.
        """
        if self._fresh is not None and self.definitions.filled:
            with suppress(NodeplaneError, TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await self._fresh(self.definitions.resource)

    async def filled(self, row: Served) -> None:
        """Wait up to FILL_SECONDS for the objects of a newly served resource."""
        replica = self._catalog.replicas.get(row.store)
        if replica is not None:
            await replica.filled_soon(FILL_SECONDS)


def _read(stored: Stored, held: _Made | None) -> _Made:
    if held is not None and held.rv == stored.rv:
        return held
    definition = read_definition(stored.obj)
    if held is not None and _same(held.definition, definition):
        for row in held.rows:  # the rows stay, and with them their watches, which see every object go
            assert row.custom is not None
            row.custom.terminating = definition.terminating
        return _Made(stored.rv, definition, held.rows)
    return _Made(stored.rv, definition, _rows(definition))


def _same(held: Definition, definition: Definition) -> bool:
    """Return True if the same resources are served; the first step of a deletion changes none."""
    alike = replace(held, generation=definition.generation, terminating=definition.terminating)
    return alike == definition


def _rows(definition: Definition) -> list[Served]:
    """Return no resources for a definition that is not established or that this version cannot parse."""
    if not definition.established:
        return []
    try:
        return resources_of(definition)
    except NodeplaneError as error:
        log.warning("custom resource not served definition=%s error=%s", definition.name, error)
        return []
