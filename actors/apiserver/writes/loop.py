"""The optimistic loop: change what the replica shows, store it if nobody was faster, else change what the store says.

Nothing is decided on stale data: a refusal or a no-op that the replica suggests is checked against the store.
"""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.stored import Stored, decode_stored, encode_object, same
from actors.apiserver.api.target import Target, conflict, may_be_stale, not_found
from actors.apiserver.api.workers import offload
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import RevisionConflict, Storage
from protocols.kube.errors import StatusError

ATTEMPTS = 20


class Outcome(msgspec.Struct, frozen=True):
    stored: Stored
    """What is in the store now; for a removal the last content under the deletion's revision."""
    removed: bool = False
    warnings: Sequence[str] = ()


Mutation = Callable[[Obj], Obj | None]
"""From a private copy of the stored object to the new one; None = remove it. Raises StatusError to refuse."""


class WriteLoop:
    def __init__(self, storage: Storage, replicas: dict[str, Replica]) -> None:
        self.storage = storage
        self._replicas = replicas

    async def run(self, target: Target, mutate: Mutation, dry_run: bool = False, size: int = 0) -> Outcome:
        """`size`: bytes that `mutate` works with, beside the object; it may be called in a thread.

        Raises NotFound, Conflict after ATTEMPTS, and whatever `mutate` raises on fresh data.
        """
        resource = target.resource
        current = self._replicas[resource.store].objects.get(target.key)
        fresh = current is None
        if current is None:
            current = await self._read(target)
        for _ in range(ATTEMPTS):
            try:
                attempt = partial(_attempt, target, current, mutate)
                made = await offload(size + len(current.raw), attempt)
            except StatusError as fault:
                if fresh or not may_be_stale(fault):
                    raise
                current, fresh = await self._read(target), True
                continue
            if made.same and not fresh:
                seen, current, fresh = current, await self._read(target), True
                if current.rv != seen.rv:
                    continue
            try:
                return await self._store(target, current, made, dry_run)
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

    async def _store(self, target: Target, current: Stored, made: "_Made", dry_run: bool) -> Outcome:
        if made.raw is None:
            rv = current.rv if dry_run else await self.storage.delete(target.resource, current)
            return Outcome(current.at(rv), removed=True)
        if made.same:
            return Outcome(current)
        if dry_run:
            return Outcome(Stored(current.key, current.rv, made.raw), warnings=made.warnings)
        return Outcome(await self.storage.update(target.resource, current, made.raw), warnings=made.warnings)


class _Made(msgspec.Struct, frozen=True):
    """`raw` None: nothing is left of the object. `same`: as it was."""

    raw: bytes | None
    same: bool = False
    warnings: Sequence[str] = ()


def _attempt(target: Target, current: Stored, mutate: Mutation) -> _Made:
    """Raises what `mutate` raises."""
    resource = target.resource
    shown = resource.converter.view(current)
    before = decode_stored(shown.raw, current.rv)
    wanted = mutate(decode_stored(shown.raw, current.rv))
    if wanted is None:
        return _Made(None)
    if same(wanted, before) and not resource.converter.outdated(current):
        return _Made(current.raw, True)
    raw = encode_object(resource.converter.to_stored(wanted))
    return _Made(raw, False, [] if target.subresource else resource.strategy.warnings(wanted, before))
