"""Create objects."""

from collections.abc import Awaitable, Callable, Collection
from functools import partial

from actors.apiserver.api.errors import Forbidden, InternalError, MethodNotAllowed, invalid_object
from actors.apiserver.api.request.target import Target, already_exists, details, name_exhausted, not_found
from actors.apiserver.api.request.workers import offload
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import KeyExists, Storage, Taken
from actors.apiserver.writes.loop import allocated
from actors.apiserver.writes.metadata import check_body, generated_name, stamp_new
from actors.apiserver.writes.owners import Owners, set_owners, stored_owners
from protocols.kinds.served.object_meta import finalizer_name_causes, metadata_causes
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import complete
from protocols.kube.meta import Object

NAME_ATTEMPTS = 8
Admit = Callable[[Object], Awaitable[None]]
"""Check a new object and complete it. Raises Forbidden."""


class Creator:
    """Complete, validate and store new objects."""

    def __init__(self, storage: Storage, namespaces: Replica) -> None:
        self._storage = storage
        self._namespaces = namespaces

    async def create(
        self,
        target: Target,
        body: Object,
        dry_run: bool = False,
        owners: Owners = stored_owners,
        size: int = 0,
        admit: Admit | None = None,
        check: Admit | None = None,
    ) -> Stored:
        """Store a new object. `size` is the number of bytes of `body`.

        `admit` checks and completes the object after its defaults; nobody owns what it sets. `check` is called for
        the valid object before each attempt to store it. Raises BadRequest, Invalid and AlreadyExists, and NotFound
        and Forbidden because of the namespace.
        """
        if target.resource.custom is not None and target.resource.custom.terminating:
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating")
        sent, resource = check_body(body, target), target.resource
        base = "" if body["metadata"].get("name") else body["metadata"].get("generateName") or ""
        stamp_new(body, resource)
        begin: Callable[[], None] | None = partial(_default, target, body, owners, sent)
        if admit is not None:
            await offload(size, partial(_default, target, body, owners, sent))
            await admit(body)
            begin = None
        store = self._dry_run if dry_run else self._storage.create
        taken = set[str]()
        for _ in range(NAME_ATTEMPTS):
            if base:
                body["metadata"]["name"] = generated_name(base)
            raw = await offload(size, partial(_prepared, target, body, begin, taken))
            begin = None
            if resource.namespaced:
                _check_namespace(target, body, await self._namespace(target.namespace))
            if check is not None:
                await check(body)
            try:
                key = resource.key(target.namespace, body["metadata"]["name"])
                return await store(resource, key, raw)
            except KeyExists as exists:
                if not base:
                    raise already_exists(resource, body["metadata"]["name"], exists.terminating) from None
            except Taken as held:
                taken.update(held.keys)
        if taken:
            raise InternalError(f"failed to allocate: others took {', '.join(sorted(taken))}; try again")
        raise name_exhausted(resource, body["metadata"]["name"])

    async def _dry_run(self, resource: Served, key: str, raw: bytes) -> Stored:
        """Do a dry run of Storage.create. Raises KeyExists, Taken."""
        existing = await self._storage.get(resource, key)
        if existing is not None:
            raise KeyExists(existing)
        await self._storage.check_free(resource, None, raw)
        return Stored(key, 0, raw)

    async def _namespace(self, name: str) -> Stored:
        """Return a namespace as the replica shows it, else as stored. Raises NotFound."""
        if (shown := self._namespaces.objects.get(name)) is not None:
            return shown
        found = await self._storage.get(self._namespaces.resource, name)
        if found is None:
            raise not_found(self._namespaces.resource, name)
        return found


def _check_namespace(target: Target, body: Object, namespace: Stored) -> None:
    if namespace.obj["metadata"].get("deletionTimestamp"):
        raise _terminating(target, body["metadata"]["name"])
    if causes := target.resource.strategy.check_namespace(body, namespace.obj):
        raise invalid_object(target.resource.kind, target.resource.group, body["metadata"]["name"], causes)


def _default(target: Target, body: Object, owners: Owners, sent: object) -> None:
    """Set the defaults and the owners of all fields so far: what strategy and admission set has no owner."""
    target.resource.strategy.default(body)
    set_owners(body, owners(body, {}, sent))


def _prepared(
    target: Target, body: Object, begin: Callable[[], None] | None = None, taken: Collection[str] = ()
) -> bytes:
    """Return the encoded object to store; `begin` comes first, `taken` are keys that it cannot reserve.

    Raises Invalid.
    """
    resource = target.resource
    if begin is not None:
        begin()
    resource.strategy.prepare_create(body)
    complete(body, resource.shape)
    causes = metadata_causes(body, resource) + resource.strategy.validate_create(body)
    if finalizers := body["metadata"].get("finalizers"):
        causes += finalizer_name_causes(finalizers, "metadata.finalizers", resource.custom is not None)
    if causes:
        raise invalid_object(resource.kind, resource.group, body["metadata"].get("name") or "", causes)
    return encode_object(resource.converter.to_stored(allocated(resource, body, None, taken)))


def _terminating(target: Target, name: str) -> Forbidden:
    text = f"unable to create new content in namespace {target.namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {target.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f'{target.resource.full_name} "{name}" is forbidden: {text}'
    return Forbidden(message, {**details(target.resource, name), "causes": [cause]})
