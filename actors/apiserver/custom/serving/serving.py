"""Definitions become rows as they are established, and go with them: whatever a replica shows is served at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from actors.apiserver.api.resource import Resource
from actors.apiserver.api.stored import Stored
from actors.apiserver.custom.definitions.definition import Definition, read_definition
from actors.apiserver.custom.serving.kind import priority
from actors.apiserver.custom.serving.rows import rows_of
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.catalog import Catalog
from protocols.errors import NodeplaneError
from protocols.kube.resources import DEFINITIONS

log = logging.getLogger(__name__)
FRESH_SECONDS = 1.0
FILL_SECONDS = 5.0
"""How long a request waits for the first objects of a resource that is served since just now."""


class _Made(NamedTuple):
    rv: int
    definition: Definition
    rows: list[Resource]


class Serving:
    """`fresh(row)` brings a row's replica up to what the store has now; None = nobody can."""

    def __init__(self, catalog: Catalog, fresh: Callable[[Resource], Awaitable[Replica]] | None) -> None:
        self._catalog = catalog
        self._fresh = fresh
        self.definitions = catalog.replicas[DEFINITIONS.qualified]
        self._made: dict[str, _Made] = {}
        """By name: rows stay the same objects while their definition means the same."""
        self.definitions.listen(self._on_change)

    def refresh(self) -> None:
        """Once the definitions are known; each change brings the rest."""
        self._made = {
            stored.key: _read(stored, self._made.get(stored.key)) for stored in self.definitions.objects.below("")
        }
        rows = [row for each in self._made.values() for row in each.rows]
        self._catalog.serve(sorted(rows, key=lambda row: (row.group, priority(row.version), row.plural)))

    def _on_change(self, change: Change) -> None:
        self.refresh()

    async def look_again(self) -> None:
        """Somebody asks what is served, or for what is not: another process may have seen a definition earlier. While
        the store or the watch cache is away, what is known has to do."""
        if self._fresh is not None and self.definitions.filled:
            with suppress(NodeplaneError, TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await self._fresh(self.definitions.resource)

    async def filled(self, row: Resource) -> None:
        """Wait for the objects of a resource whose stream has just begun, but not for ever."""
        replica = self._catalog.replicas.get(row.store)
        if replica is not None and not replica.filled:
            try:
                await asyncio.wait_for(replica.wait_filled(), FILL_SECONDS)
            except TimeoutError:
                replica.check_filled()


def _read(stored: Stored, held: _Made | None) -> _Made:
    if held is not None and held.rv == stored.rv:
        return held
    definition = read_definition(stored.obj)
    if held is not None and held.definition == definition:
        return _Made(stored.rv, definition, held.rows)
    return _Made(stored.rv, definition, _rows(definition))


def _rows(definition: Definition) -> list[Resource]:
    """None of a definition that waits for its names, or that this process, older than its author, cannot read."""
    if not definition.established:
        return []
    try:
        return rows_of(definition)
    except NodeplaneError as error:
        log.warning("custom resource %s is not served: %s", definition.name, error)
        return []
