"""Writes the conditions of definitions, and ends those that are deleted, their objects first.

Runs in every process: there is nobody to elect, nothing to hand over, and a killed process is not missed. What is
stored is guarded by the revision it was decided on, so of several writes of one decision one counts, and a decision on
old data counts not at all (see names.py). A custom resource is served as soon as any apiserver process lives.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from actors.apiserver.api.objects import Obj, at
from actors.apiserver.api.resource import Resource
from actors.apiserver.api.stored import Stored, decode_stored, encode_object
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.api.target import Target
from actors.apiserver.custom.definitions.definition import CLEANUP, Names
from actors.apiserver.custom.definitions.names import Seen, Taken, new_status, taken
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.storage.storage import RevisionConflict, Storage
from actors.apiserver.writes.delete import DeleteOptions, deleted
from protocols.errors import NodeplaneError
from protocols.kube.custom import declared
from protocols.kube.resources import DEFINITIONS

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
PAGE = 100


class Keeper:
    """`turn`: this process' place among the others; those behind the first give it time to empty a resource alone."""

    def __init__(self, storage: Storage, definitions: Replica, built_in: Mapping[str, Taken], turn: int) -> None:
        self._storage = storage
        self._definitions = definitions
        self._built_in = built_in
        self._turn = turn
        self._woken = asyncio.Event()
        self._seen: dict[str, Seen] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        definitions.listen(self._on_change)

    async def run(self, spawn: Callable[..., "asyncio.Task[None]"]) -> None:
        """Once the definitions are known. Each change, and a failed write, is a reason to look at all of them."""
        self._woken.set()
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not await self._tend(spawn):
                asyncio.get_running_loop().call_later(FIRST_PAUSE, self._woken.set)

    def _on_change(self, change: Change) -> None:
        self._woken.set()

    async def _tend(self, spawn: Callable[..., "asyncio.Task[None]"]) -> bool:
        """False when something could not be stored, and nothing else will wake us."""
        held = list(self._definitions.objects.below(""))
        self._seen = {stored.key: self._look(stored) for stored in held}
        stands = True
        for stored in held:
            one = self._seen[stored.key]
            if one.settled:
                continue
            status = new_status(one, self._seen.values(), self._built_in)
            if status is not None:
                stands &= await self._store(stored, {**decode_stored(stored.raw, stored.rv), "status": status})
            elif _ends(stored) and stored.key not in self._ending:
                self._ending[stored.key] = spawn(self._end(stored.key), f"end-{stored.key}")
        return stands

    def _look(self, stored: Stored) -> Seen:
        """Read once a revision."""
        known = self._seen.get(stored.key)
        return known if known is not None and known.rv == stored.rv else Seen(stored.obj, stored.rv)

    async def _store(self, stored: Stored, obj: Obj) -> bool:
        try:
            await self._storage.update(self._row, stored, encode_object(obj))
        except RevisionConflict:
            return True  # by somebody whose write wakes us
        except NodeplaneError as error:
            log.info("status of %s is not stored, later again: %s", stored.key, error)
            return False
        return True

    @property
    def _row(self) -> Resource:
        return self._definitions.resource

    async def _end(self, name: str) -> None:
        pause = FIRST_PAUSE
        await asyncio.sleep(self._turn * FIRST_PAUSE * 2)
        try:
            while (stored := self._definitions.objects.get(name)) is not None and _ends(stored):
                try:
                    if await self._emptied(stored):
                        await self._release(name)
                        return
                except NodeplaneError as error:
                    log.info("objects of %s are not deleted yet: %s", name, error)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            del self._ending[name]
            self._woken.set()

    async def _emptied(self, stored: Stored) -> bool:
        """Delete every object; True when none was left, twice, for another process may still have let one in."""
        row = _bare_row(stored.obj)
        if row is None:
            return True
        if await self._delete_all(row):
            return False
        await asyncio.sleep(FIRST_PAUSE)
        return not await self._delete_all(row)

    async def _delete_all(self, row: Resource) -> int:
        """How many there were."""
        start, count = "", 0
        while True:
            page = await self._storage.page(row, "", start, PAGE, 0, _none)
            for stored in page.objects:
                await self._delete(row, stored)
            count += len(page.objects)
            if not page.more:
                return count
            start = page.objects[-1].key + "\0"

    async def _delete(self, row: Resource, stored: Stored) -> None:
        """As anybody would: finalizers of its own are waited for."""
        obj = decode_stored(stored.raw, stored.rv)
        left = deleted(Target(row, "delete", stored.namespace, stored.name), DeleteOptions(), obj)
        try:
            if left is None:
                await self._storage.delete(row, stored)
            elif left != decode_stored(stored.raw, stored.rv):
                await self._storage.update(row, stored, encode_object(left))
        except RevisionConflict:
            return  # the next look sees what became of it

    async def _release(self, name: str) -> None:
        """Take the finalizer off; with the last one the definition goes."""
        stored = await self._storage.get(self._row, name)
        if stored is None or not _ends(stored):
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


def names_of(rows: tuple[Resource, ...]) -> dict[str, Taken]:
    """Of the table's own rows, by group: no definition gets these."""
    groups: dict[str, list[Names]] = {}
    for row in rows:
        names = Names(row.plural, row.singular, row.kind, row.listing, row.short_names)
        groups.setdefault(row.group, []).append(names)
    return {group: taken(each) for group, each in groups.items()}


def _none(key: str) -> Stored | None:
    """Nothing is known of a resource that may be served no more."""
    return None


def _ends(stored: Stored) -> bool:
    metadata = stored.obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and CLEANUP in (metadata.get("finalizers") or ())


def _bare_row(definition: Obj) -> Resource | None:
    """Enough of a row to find and delete what is stored under it."""
    resource = declared(definition)
    if resource is None or not at(definition, "spec", "names"):
        return None
    return Resource(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=resource.kind,
        namespaced=resource.namespaced,
        strategy=Strategy(),
        singular="",
        columns=(),
        prefix=resource.etcd_prefix,
        stored_as=DEFINITIONS.qualified,
    )
