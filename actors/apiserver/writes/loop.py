"""The optimistic write loop.

The first attempt changes the object of the replica and stores it if its revision is still current. After a conflict
the object of the store is changed. No decision rests on stale data: before an error is raised or a write is skipped
because of the replica's object, the store's object is read.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import msgspec

from actors.apiserver.api.errors import InternalError, invalid_object
from actors.apiserver.api.request.target import Target, conflict, may_be_stale, not_found
from actors.apiserver.api.request.traces import changed_fields
from actors.apiserver.api.request.workers import offload
from actors.apiserver.api.stored import Stored, decode_stored, encode_object, view
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import RevisionConflict, Storage, Taken
from actors.apiserver.writes.metadata import finished
from protocols.kinds.served.errors import AllocationInvalid, RangeFull
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import complete
from protocols.kube.errors import StatusError
from protocols.kube.meta import Object
from protocols.kube.objects import same

ATTEMPTS = 20


class Written(msgspec.Struct, frozen=True):
    stored: Stored
    """The stored object; after a removal its last content, at the revision of the deletion."""
    removed: bool = False
    warnings: Sequence[str] = ()
    fields: str = ""
    """Paths of the fields that changed of a pod, for its trace."""


Mutation = Callable[[Object], Object | None]
"""Change a private copy of the stored object and return the new one; None removes it. Raises StatusError.

An object that is being deleted is removed, too, when nothing holds it any longer.
"""
Charge = Callable[[Object, Object], Awaitable[None]]
"""Charge an update to quotas: the new object and the old one. Raises Forbidden, Conflict."""


class Deferred(Exception):
    """Raised by a mutation that needs answers first: `resolve` gets them, then the mutation is called again."""

    def __init__(self, resolve: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.resolve = resolve


class WriteLoop:
    def __init__(self, storage: Storage, replicas: dict[str, Replica]) -> None:
        self.storage = storage
        self._replicas = replicas

    async def run(
        self, target: Target, mutate: Mutation, dry_run: bool = False, size: int = 0, charge: Charge | None = None
    ) -> Written:
        """Apply `mutate` to the target's object and store the result.

        `mutate` may be called several times, and in a thread. `size` is the number of bytes that it handles besides
        the object. `charge` is called before each attempt to store a change. Raises NotFound, Conflict after ATTEMPTS,
        and the errors of `mutate` on fresh data and of `charge`.
        """
        resource = target.resource
        current = self._replicas[resource.store].objects.get(target.key)
        fresh = current is None or dry_run  # nothing stored would reveal that the replica is behind
        if current is None or dry_run:
            current = await self._read(target)
        taken = set[str]()
        for _ in range(ATTEMPTS):
            try:
                attempt = partial(_attempt, target, current, mutate, taken)
                made = await offload(size + len(current.raw), attempt)
            except Deferred as deferred:
                if fresh:
                    await deferred.resolve()
                else:  # others are asked about the newest object only
                    current, fresh = await self._read(target), True
                continue
            except StatusError as fault:
                if fresh or not may_be_stale(fault):
                    raise
                current, fresh = await self._read(target), True
                continue
            if made.same and not fresh:
                seen, current, fresh = current, await self._read(target), True
                if current.rv != seen.rv:
                    continue
            if charge is not None and not made.same and not made.removed:
                await charge(decode_stored(made.raw, current.rv), decode_stored(current.raw, current.rv))
            try:
                return await self._store(target, current, made, dry_run)
            except Taken as held:
                taken.update(held.keys)
            except RevisionConflict as changed:
                if changed.current is None:
                    raise not_found(resource, target.name) from None
                current, fresh = changed.current, True
        raise conflict(resource, target.name)

    async def _read(self, target: Target) -> Stored:
        found = await self.storage.get(target.resource, target.key)
        if found is None:
            raise not_found(target.resource, target.name)
        return found

    async def _store(self, target: Target, current: Stored, made: "_Attempted", dry_run: bool) -> Written:
        if made.removed:
            rv = current.rv if dry_run else await self.storage.delete(target.resource, current)
            return Written(Stored(current.key, rv, made.raw), removed=True)
        if made.same:
            return Written(current)
        if dry_run:
            await self.storage.check_free(target.resource, current.raw, made.raw)
            return Written(Stored(current.key, current.rv, made.raw), warnings=made.warnings)
        stored = await self.storage.update(target.resource, current, made.raw)
        return Written(stored, warnings=made.warnings, fields=made.fields)


class _Attempted(msgspec.Struct, frozen=True):
    """Result of an attempt: the object to store, or the last content of one that is `removed`."""

    raw: bytes
    same: bool = False
    removed: bool = False
    warnings: Sequence[str] = ()
    fields: str = ""


def _attempt(target: Target, current: Stored, mutate: Mutation, taken: Collection[str]) -> _Attempted:
    resource = target.resource
    shown = view(resource, current)
    before, copy = decode_stored(shown.raw, current.rv), decode_stored(shown.raw, current.rv)
    complete(before, resource.shape)
    complete(copy, resource.shape)
    wanted = mutate(copy)
    if wanted is None:
        return _Attempted(current.raw, removed=True)
    if same(wanted, before) and not resource.converter.is_outdated(current.raw):
        return _Attempted(current.raw, same=True)
    raw = encode_object(resource.converter.to_stored(allocated(resource, wanted, before, taken)))
    warnings = [] if target.subresource else resource.strategy.warnings(wanted, before)
    fields = changed_fields(target, before, wanted)
    return _Attempted(raw, removed=finished(wanted), warnings=warnings, fields=fields)


def allocated(resource: Served, obj: Object, old: Object | None, taken: Collection[str] = ()) -> Object:
    """Return the object with the values that the server allocates. Raises Invalid, InternalError."""
    if resource.reserves is None:
        return obj
    try:
        return resource.strategy.allocate(obj, old, taken)
    except AllocationInvalid as error:
        raise invalid_object(resource.kind, resource.group, obj["metadata"].get("name") or "", error.causes) from None
    except RangeFull as error:
        raise InternalError(str(error)) from None
