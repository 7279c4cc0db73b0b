"""Reconcile the conditions of definitions; finalize deleted ones by deleting their objects first.

Runs in every apiserver process, without leader election or handover. Each write is guarded by the revision it was
decided on, so of several writes of one decision one succeeds, and a decision on stale data fails (see names.py). A
custom resource is served as soon as any apiserver process is up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from msgspec.structs import asdict

from actors.apiserver.api.errors import CorruptObject
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored, corruption, decode_stored, encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.storage.storage import RevisionConflict, Storage
from actors.apiserver.writes.delete import DeleteOptions, deleted
from protocols.errors import NodeplaneError
from protocols.kinds.custom.definitions.definition import CLEANUP, Names
from protocols.kinds.custom.definitions.names import ObservedDefinition, Taken, new_status, taken
from protocols.kinds.served.row import Served
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.table import DEFINITIONS
from protocols.kube.custom import declared
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.process.rates import backoff_delay

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
PAGE = 100


class DefinitionController:
    """`turn` is the index of this process: processes after the first wait, so that one alone empties a resource."""

    def __init__(self, storage: Storage, definitions: Replica, built_in: Mapping[str, Taken], turn: int) -> None:
        self._storage = storage
        self._definitions = definitions
        self._built_in = built_in
        self._turn = turn
        self._pending = asyncio.Event()
        self._observed: dict[str, ObservedDefinition] = {}
        self._finalizing: dict[str, asyncio.Task[None]] = {}
        definitions.listen(self._on_change)

    async def run(self, spawn: Callable[..., "asyncio.Task[None]"]) -> None:
        """Reconcile all definitions after every change and after a failed write. Start once the replica is filled."""
        self._pending.set()
        while True:
            await self._pending.wait()
            self._pending.clear()
            if not await self._reconcile(spawn):
                asyncio.get_running_loop().call_later(FIRST_PAUSE, self._pending.set)

    def _on_change(self, change: Change) -> None:
        self._pending.set()

    async def _reconcile(self, spawn: Callable[..., "asyncio.Task[None]"]) -> bool:
        """Return False if a status could not be stored and no event will trigger the next pass."""
        held = list(self._definitions.objects.below(""))
        self._observed = {stored.key: self._observe(stored) for stored in held}
        complete = True
        for stored in held:
            one = self._observed[stored.key]
            if one.settled:
                continue
            status = new_status(one, self._observed.values(), self._built_in)
            if status is not None:
                complete &= await self._store(stored, {**decode_stored(stored.raw, stored.rv), "status": status})
            elif _is_finalizing(stored) and stored.key not in self._finalizing:
                self._finalizing[stored.key] = spawn(self._finalize(stored.key), f"end-{stored.key}")
        return complete

    def _observe(self, stored: Stored) -> ObservedDefinition:
        known = self._observed.get(stored.key)
        return known if known is not None and known.rv == stored.rv else ObservedDefinition(stored.obj, stored.rv)

    async def _store(self, stored: Stored, obj: Object) -> bool:
        try:
            await self._storage.update(self._row, stored, encode_object(obj))
        except RevisionConflict:
            return True  # another process wrote; its event triggers the next pass
        except NodeplaneError as error:
            log.info("definition status not stored, will retry definition=%s error=%s", stored.key, error)
            return False
        return True

    @property
    def _row(self) -> Served:
        return self._definitions.resource

    async def _finalize(self, name: str) -> None:
        failures = 0
        await asyncio.sleep(self._turn * FIRST_PAUSE * 2)
        try:
            while (stored := self._definitions.objects.get(name)) is not None and _is_finalizing(stored):
                try:
                    if await self._delete_objects(stored):
                        await self._release(name)
                        return
                except NodeplaneError as error:
                    log.info("custom objects not deleted, will retry definition=%s error=%s", name, error)
                failures += 1
                await asyncio.sleep(backoff_delay(failures, FIRST_PAUSE, LONGEST_PAUSE))
        finally:
            del self._finalizing[name]
            self._pending.set()

    async def _delete_objects(self, stored: Stored) -> bool:
        """Delete every object; return True when two passes found none.

        The second pass is needed because another process may still have accepted an object during the first.
        """
        row = _bare_resource(stored.obj)
        if row is None:
            return True
        if await self._delete_all(row):
            return False
        await asyncio.sleep(FIRST_PAUSE)
        return not await self._delete_all(row)

    async def _delete_all(self, row: Served) -> int:
        """Return the number of objects found."""
        start, count = "", 0
        while True:
            page = await self._storage.page(row, "", start, PAGE, 0, _uncached)
            for stored in page.objects:
                await self._delete(row, stored)
            count += len(page.objects)
            if not page.more:
                return count
            start = page.objects[-1].key + "\0"

    async def _delete(self, row: Served, stored: Stored) -> None:
        """Delete an object as a client would; objects with finalizers remain until those are removed.

        Raises CorruptObject: only an administrator can decide that it may go.
        """
        if why := corruption(stored.raw, custom=True):
            raise CorruptObject(f"{row.storage_prefix}{stored.key}", why)
        obj = decode_stored(stored.raw, stored.rv)
        left = deleted(Target(row, "delete", stored.namespace, stored.name), DeleteOptions(), obj)
        try:
            if left is None:
                await self._storage.delete(row, stored)
            elif left != decode_stored(stored.raw, stored.rv):
                await self._storage.update(row, stored, encode_object(left))
        except RevisionConflict:
            return  # the next pass sees the result

    async def _release(self, name: str) -> None:
        """Remove the cleanup finalizer; without other finalizers the definition is deleted."""
        stored = await self._storage.get(self._row, name)
        if stored is None or not _is_finalizing(stored):
            return
        obj = decode_stored(stored.raw, stored.rv)
        finalizers = [held for held in obj["metadata"]["finalizers"] if held != CLEANUP]
        try:
            if finalizers:
                obj["metadata"]["finalizers"] = finalizers
                await self._storage.update(self._row, stored, encode_object(obj))
            else:
                await self._storage.delete(self._row, stored)
        except RevisionConflict:
            return


def names_by_group(rows: tuple[Served, ...]) -> dict[str, Taken]:
    """Return the names of the built-in resources by group; definitions cannot claim them."""
    groups: dict[str, list[Names]] = {}
    for row in rows:
        names = Names(row.plural, row.singular, row.kind, row.list_kind, row.short_names)
        groups.setdefault(row.group, []).append(names)
    return {group: taken(group_names) for group, group_names in groups.items()}


def _uncached(key: str) -> Stored | None:
    """Report every object as uncached: the resource may no longer be served."""
    return None


def _is_finalizing(stored: Stored) -> bool:
    metadata = stored.obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and CLEANUP in (metadata.get("finalizers") or ())


def _bare_resource(definition: Object) -> Served | None:
    """Return a minimal resource, enough to find and delete the stored objects."""
    resource = declared(definition)
    if resource is None or not at(definition, "spec", "names"):
        return None
    return Served(
        **asdict(resource),
        strategy=Strategy(),
        columns=(),
        stored_as=DEFINITIONS.full_name,
    )
