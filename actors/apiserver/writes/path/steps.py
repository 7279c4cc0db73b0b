"""The write path: the steps that take one Change from its request to the store.

| step | `create` | `change`: update, patch, apply, delete, subresources |
|---|---|---|
| decode | checks the body and stamps it (`check_new`) | the stored object is `old`, the mutation makes `new` |
| complete | defaults and owners of the kind (`set_defaults`), then rules | in the mutation (`updated`), then rules |
| check_author | rules: the author's rights to this content | the same, before errors of the mutation |
| mutate | policies and webhooks of users change `new` | the same, and `new` is valid again after it |
| check_valid | name, fields and namespace (`prepared`), then rules | in the mutation, then rules |
| charge | quotas, once | quotas, before each attempt to store |
| store | a generated name that exists is drawn again | a conflict begins again with the newest object |

Contracts:
- The rules of a step are rows of RULES (`admission/admission.py`), built-in ones, policies and webhooks alike.
- A step raises a StatusError or leaves `change.new` as the next step needs it. Nothing changes `change.old`.
- A new object is stored while its namespace, and the definition of a custom resource, stand at the revisions that were
  checked, if one store has them: none comes after a controller has found nothing left to delete.
- Nothing is stored before all steps have passed. A charge of a write that fails is given back by the quota controller.
- The first attempt to change an object begins with the replica's, and stores it if its revision is still current. No
  decision rests on stale data: before an error is raised or a write is skipped because of the replica's object, the
  store's object is read. Webhooks are asked about the store's object only.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import msgspec

from actors.apiserver.api.errors import InternalError, Invalid
from actors.apiserver.api.request.target import (
    Target,
    already_exists,
    conflict,
    may_be_stale,
    name_exhausted,
    not_found,
)
from actors.apiserver.api.request.traces import changed_fields
from actors.apiserver.api.request.workers import offload
from actors.apiserver.api.stored import Stored, decode_stored, encode_object, view
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import HeldChanged, KeyExists, RevisionConflict, Storage, Taken
from actors.apiserver.writes.admission.admission import Admission, Admitting
from actors.apiserver.writes.admission.rule import Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change, Mutation
from actors.apiserver.writes.create import (
    allocated,
    check_definition,
    check_namespace,
    check_new,
    prepared,
    set_defaults,
)
from actors.apiserver.writes.metadata import finished, generated_name
from actors.apiserver.writes.owners import Owners
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import complete
from protocols.kinds.table import DEFINITIONS, NAMESPACES
from protocols.kube.errors import StatusError
from protocols.kube.objects import same

ATTEMPTS, NAME_ATTEMPTS = 1000, 8
"""Attempts to store, of which each but the last lost to another write: of many writers at once, one is first each time.
The deadline of a request mostly comes before. And names that are drawn."""


class Written(msgspec.Struct, frozen=True):
    """Result of a write, for its response."""

    stored: Stored
    """The stored object; after a removal its last content, at the revision of the deletion."""
    removed: bool = False
    same: bool = False
    """Nothing changed, so nothing was stored."""
    warnings: Sequence[str] = ()
    fields: str = ""
    """Paths of the fields that changed of a pod, for its trace."""


class WritePath:
    """Takes writes to the store: `create` new objects, `change` stored ones."""

    def __init__(self, storage: Storage, replicas: dict[str, Replica], admission: Admission) -> None:
        self.storage, self.admission = storage, admission
        self.replicas = replicas

    async def create(self, change: Change, owners: Owners) -> Written:
        """Store a new object, the body of a request.

        Raises BadRequest, Invalid and AlreadyExists, NotFound and Forbidden because of the namespace, and the errors
        of admission.
        """
        rules, body = await self.admission.begin(change), change.sent
        sent = check_new(change.target, body)
        base = "" if body["metadata"].get("name") else body["metadata"].get("generateName") or ""
        await offload(change.size, partial(set_defaults, change, owners, sent))
        await rules.run(Step.COMPLETE, change)
        await rules.check_author(change, change.size)
        await rules.run(Step.MUTATE, change)
        stored = await self._store_new(change, rules, base)
        warnings = change.target.resource.strategy.warnings(change.sent, None)
        return Written(stored, warnings=[*warnings, *change.warnings])

    async def _store_new(self, change: Change, rules: Admitting, base: str) -> Stored:
        """Store an object that gets a name that begins with `base`, or with an empty base has one."""
        row, space, dry_run = change.target.resource, change.target.namespace, change.options.dry_run
        taken, charged, name = set[str](), False, ""
        for _ in range(NAME_ATTEMPTS):
            if base:
                change.sent["metadata"]["name"] = generated_name(base)
            raw = await offload(change.size, partial(prepared, change, taken))
            name = change.sent["metadata"]["name"]
            await self._hold_parents(change)
            await rules.run(Step.CHECK_VALID, change)
            if not charged:
                await rules.run(Step.CHARGE, change)
                charged = True
            try:
                if dry_run:
                    return await self._try_create(row, row.key(space, name), raw)
                return await self._create(change, row.key(space, name), raw)
            except KeyExists as exists:
                if not base:
                    raise already_exists(row, name, exists.terminating) from None
            except Taken as held:
                taken.update(held.keys)
        if taken:
            raise InternalError(f"failed to allocate: others took {', '.join(sorted(taken))}; try again")
        raise name_exhausted(row, name)

    async def _hold_parents(self, change: Change, *, fresh: bool = False) -> None:
        """Check that namespace and definition take the new object, and let the write depend on them.

        With `fresh` as the store has them, not the replicas. Raises NotFound, Forbidden, Invalid.
        """
        target, held = change.target, dict[bytes, int]()
        for store, name, check in _parents_of(target):
            row = self.replicas[store].resource
            shown = None if fresh else self.replicas[store].objects.get(name)
            stored = await self.read(Target(row, "get", name=name)) if shown is None else shown
            check(change, stored)
            if self.storage.are_together(target.resource, row):
                held[f"{row.storage_prefix}{name}".encode()] = stored.rv
        change.held = held

    async def _create(self, change: Change, key: str, raw: bytes) -> Stored:
        for _ in range(ATTEMPTS):
            try:
                return await self.storage.create(change.target.resource, key, raw, change.held)
            except HeldChanged:
                await self._hold_parents(change, fresh=True)
        raise conflict(change.target.resource, change.sent["metadata"]["name"])

    async def _try_create(self, resource: Served, key: str, raw: bytes) -> Stored:
        """Do a dry run of Storage.create. Raises KeyExists, Taken."""
        existing = await self.storage.get(resource, key)
        if existing is not None:
            raise KeyExists(existing)
        await self.storage.check_free(resource, None, raw)
        return Stored(key, 0, raw)

    async def change(self, change: Change, mutate: Mutation) -> Written:
        """Apply `mutate` to the target's object and store the result. The body of a subresource was checked before.

        Raises NotFound, HeldChanged, Conflict after ATTEMPTS, and the errors of `mutate` and of admission on fresh
        data.
        """
        target, admission = change.target, self.admission
        rules = admission.rules(change) if change.operation == CREATE else await admission.begin(change)
        shown = self.replicas[target.resource.store].objects.get(target.key)
        # Of a dry run, nothing stored would reveal that the replica is behind.
        fresh = shown is None or change.options.dry_run or (change.session is not None and change.session.asks)
        current = await self.read(target) if fresh or shown is None else shown
        taken = set[str]()
        for _ in range(ATTEMPTS):
            try:
                written = await self._attempt(change, rules, current, mutate, taken)
            except StatusError as fault:
                if fresh or not may_be_stale(fault):
                    raise
                current, fresh = await self.read(target), True
                continue
            if written.same and not fresh:
                seen, current, fresh = current, await self.read(target), True
                if current.rv != seen.rv:
                    continue
            if not written.same and not written.removed:
                await rules.run(Step.CHARGE, change)
            try:
                return await self._store(change, current, written)
            except Taken as held:
                taken.update(held.keys)
            except RevisionConflict as changed:
                if changed.current is None:
                    raise not_found(target.resource, target.name) from None
                current, fresh = changed.current, True
        raise conflict(target.resource, target.name)

    async def read(self, target: Target) -> Stored:
        """Return the newest object. Raises NotFound."""
        stored = await self.storage.get(target.resource, target.key)
        if stored is None:
            raise not_found(target.resource, target.name)
        return stored

    async def _attempt(
        self, change: Change, rules: Admitting, current: Stored, mutate: Mutation, taken: Collection[str]
    ) -> Written:
        """Run the steps that lead from the stored object to the one to store."""
        size = change.size + len(current.raw)
        try:
            await offload(size, partial(_mutate, change, current, mutate))
        except StatusError as fault:
            change.new = fault.rejected if isinstance(fault, Invalid) else None
            if change.new is not None or change.operation != UPDATE:
                await rules.check_author(change, size)
            raise
        await rules.run(Step.COMPLETE, change)
        await rules.check_author(change, size)
        await rules.run(Step.MUTATE, change)
        await rules.run(Step.CHECK_VALID, change)
        return await offload(size, partial(_encode, change, current, taken))

    async def _store(self, change: Change, current: Stored, written: Written) -> Written:
        row, stored, dry_run = change.target.resource, written.stored, change.options.dry_run
        if written.removed:
            rv = current.rv if dry_run else await self.storage.delete(row, current)
            stored = Stored(current.key, rv, stored.raw)
        elif dry_run and not written.same:
            await self.storage.check_free(row, current.raw, stored.raw)
        elif not written.same:
            stored = await self.storage.update(row, current, stored.raw, change.held)
        return Written(stored, written.removed, written.same, [*written.warnings, *change.warnings], written.fields)


def _parents_of(target: Target) -> Iterator[tuple[str, str, Callable[[Change, Stored], None]]]:
    """Yield store, name and check of what a new object is deleted with."""
    if target.resource.namespaced:
        yield NAMESPACES.full_name, target.namespace, check_namespace
    if target.resource.custom is not None:
        yield DEFINITIONS.full_name, target.resource.full_name, check_definition


def _mutate(change: Change, current: Stored, mutate: Mutation) -> None:
    row = change.target.resource
    raw = view(row, current).raw
    change.old, copy = decode_stored(raw, current.rv), decode_stored(raw, current.rv)
    complete(change.old, row.shape)
    complete(copy, row.shape)
    change.new = mutate(copy)


def _encode(change: Change, current: Stored, taken: Collection[str]) -> Written:
    """Return the object to store, or the last content of one that is removed."""
    target, old, new = change.target, change.old, change.new
    resource = target.resource
    if old is None or new is None:
        return Written(current, removed=True)
    warnings = [] if target.subresource else resource.strategy.warnings(new, old)
    if same(new, old) and not resource.converter.is_outdated(current.raw):
        return Written(current, same=True, warnings=warnings)
    raw = encode_object(resource.converter.to_stored(allocated(resource, new, old, taken)))
    stored = Stored(current.key, current.rv, raw)
    if finished(new):
        return Written(stored, removed=True)
    fields = "" if change.options.dry_run else changed_fields(target, old, new)
    return Written(stored, warnings=warnings, fields=fields)
