"""POST: a new object, named by its author or by us, in a namespace that takes it."""

from collections.abc import Callable

from actors.apiserver.catalog.table import TABLE
from actors.apiserver.errors.answers import Forbidden, MethodNotAllowed
from actors.apiserver.errors.causes import invalid_object
from actors.apiserver.objects.metadata_rules import finalizer_name_causes
from actors.apiserver.objects.paths import Obj, at
from actors.apiserver.ownership.entries import Entries
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.stored import Stored
from actors.apiserver.request.target import Target
from actors.apiserver.storage.storage import Storage, Taken
from actors.apiserver.writes.encode import encode_object
from actors.apiserver.writes.faults import already_exists, details, name_exhausted, not_found
from actors.apiserver.writes.metadata import check_body, generated_name, metadata_causes, stamp_new
from actors.apiserver.writes.owners import FIELD, Owners, set_owners, stored_owners

NAME_ATTEMPTS = 8


class Creator:
    def __init__(self, storage: Storage, namespaces: Replica) -> None:
        self._storage = storage
        self._namespaces = namespaces

    async def create(self, target: Target, body: Obj, dry_run: bool = False, owners: Owners = stored_owners) -> Stored:
        """Raises BadRequest, Invalid, AlreadyExists, NotFound and Forbidden (of the namespace)."""
        if target.resource.custom is not None and target.resource.custom.terminating:
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating")
        sent = at(body, "metadata", FIELD)
        check_body(body, target)
        base = "" if body["metadata"].get("name") else body["metadata"].get("generateName") or ""
        stamp_new(body, target.resource)
        for _ in range(NAME_ATTEMPTS):
            if base:
                body["metadata"]["name"] = generated_name(base)
            try:
                return await self._attempt(target, body, dry_run, lambda new: owners(new, {}, sent))
            except Taken as taken:
                if not base:
                    raise already_exists(target.resource, body["metadata"]["name"], taken.terminating) from None
        raise name_exhausted(target.resource, body["metadata"]["name"])

    async def _attempt(self, target: Target, body: Obj, dry_run: bool, owners: Callable[[Obj], Entries]) -> Stored:
        resource = target.resource
        _prepare(target, body)
        set_owners(body, owners(body))
        if resource.namespaced:
            await self._check_namespace(target, body)
        named = Target(resource, target.verb, target.namespace, body["metadata"]["name"])
        raw = encode_object(resource.face.to_stored(body))
        if not dry_run:
            return await self._storage.create(resource, named.key, raw)
        existing = await self._storage.get(resource, named.key)
        if existing is not None:
            raise Taken(existing)
        return Stored(named.key, 0, raw)

    async def _check_namespace(self, target: Target, body: Obj) -> None:
        namespaces = TABLE.of("namespaces")
        found = self._namespaces.objects.get(target.namespace)
        if found is None:
            found = await self._storage.get(namespaces, target.namespace)
        if found is None:
            raise not_found(namespaces, target.namespace)
        if found.obj["metadata"].get("deletionTimestamp"):
            raise _terminating(target, body["metadata"]["name"])
        if causes := target.resource.strategy.check_namespace(body, found.obj):
            raise invalid_object(target.resource.kind, target.resource.group, body["metadata"]["name"], causes)


def _prepare(target: Target, body: Obj) -> None:
    resource = target.resource
    resource.strategy.default(body)
    resource.strategy.prepare_create(body)
    causes = metadata_causes(body, resource) + resource.strategy.validate_create(body)
    if finalizers := body["metadata"].get("finalizers"):
        causes += finalizer_name_causes(finalizers, "metadata.finalizers")
    if causes:
        raise invalid_object(resource.kind, resource.group, body["metadata"].get("name") or "", causes)


def _terminating(target: Target, name: str) -> Forbidden:
    text = f"unable to create new content in namespace {target.namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {target.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f'{target.resource.full_name} "{name}" is forbidden: {text}'
    return Forbidden(message, {**details(target.resource, name), "causes": [cause]})
