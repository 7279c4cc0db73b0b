"""The eviction subresource of pods."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from actors.apiserver.api.encoding.render import dump
from actors.apiserver.api.errors import BadRequest, Conflict
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored
from actors.apiserver.http.connection.requests import Request, read_object
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.writes.budgets import Budgets, ignores_budgets, may_become_ready, not_processed, spares_unready
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.delete import DeleteOptions, check_preconditions, delete_options, deleted
from actors.apiserver.writes.metadata import check_kind, check_metadata
from actors.apiserver.writes.path.steps import WritePath
from actors.apiserver.writes.update import set_condition
from protocols.kube.meta import Object

ATTEMPTS = 20
CONDITION = "DisruptionTarget"
OLD_EVICTION = "policy/v1beta1"
"""Upstream serves no other kind in this version, but still reads it here."""
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
MORE_THAN_ONE = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
SEVERAL = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": MORE_THAN_ONE,
    "code": 500,
}


class Evicting:
    """POST pods/NAME/eviction: delete a pod as its disruption budget allows."""

    def __init__(self, path: WritePath, budgets: Budgets, fresh: Callable[[], Awaitable[object]]) -> None:
        """`fresh` waits until the replica shows each acknowledged write of a budget."""
        self._path, self._budgets, self._fresh = path, budgets, fresh

    async def create(self, request: Request) -> Reply:
        """Evict a pod unless its disruption budget does not allow it. Raises TooManyRequests."""
        body = await read_object(request.http, "Eviction")
        options = delete_options(_eviction_options(request.target, body), {}, request.dry_runs)
        reviewed = Change(request.target, request.user, WriteOptions(dry_run=options.dry_run), new=body)
        warnings = await self._path.admission.review(reviewed)
        status = await self._within_budget(request, options)
        return Reply(dump(status, request.form), status["code"], request.form.media_type, warnings=warnings)

    async def _within_budget(self, request: Request, options: DeleteOptions) -> Object:
        """Evict the pod, and return the status that answers it."""
        target = request.target
        await self._fresh()
        if not self._budgets.any_in(target.namespace):
            await self._evict(request, options)
            return SUCCESS
        for attempt in range(ATTEMPTS):
            pod = await self._path.read(target)
            if not ignores_budgets(pod.obj):
                return await self._evict_by_budget(request, pod, options)
            guarded = _guarded(options, pod) if may_become_ready(pod.obj) else options
            try:
                await self._evict(request, guarded)
                break
            except Conflict:  # it may be running by now
                if options.version is not None or attempt == ATTEMPTS - 1:
                    raise
        return SUCCESS

    async def _evict_by_budget(self, request: Request, pod: Stored, options: DeleteOptions) -> Object:
        budgets = self._budgets.matching(request.target.namespace, pod.obj)
        if len(budgets) > 1:
            return SEVERAL
        budget = await self._budgets.newest(budgets[0]) if budgets else None
        if budget is None:
            await self._evict(request, options)
        elif spares_unready(budget.obj, pod.obj):
            try:
                await self._evict(request, _guarded(options, pod))
            except Conflict:
                if options.version is None:
                    raise not_processed(budget.name) from None
                raise
        else:
            check_preconditions(request.target, options, pod.obj)
            await self._budgets.take(budget, pod.name, dry_run=options.dry_run)
            await self._evict(request, options)
        return SUCCESS

    async def _evict(self, request: Request, options: DeleteOptions) -> None:
        """Add the condition DisruptionTarget to the pod, then delete it."""
        target = request.target

        def mark_evicted(pod: Object) -> Object:
            check_preconditions(target, options, pod)
            if not pod["metadata"].get("deletionTimestamp"):
                set_condition(pod, CONDITION, reason="EvictionByEvictionAPI", message="Eviction API: evicting")
            return pod

        if not options.dry_run:
            marked = await self._path.change(Change(target, request.user), mark_evicted)
            if options.version is not None:
                options = replace(options, version=str(marked.stored.rv))  # the condition changed it
        change = Change(target, request.user, WriteOptions(dry_run=options.dry_run))
        await self._path.change(change, partial(deleted, target, options))


def _guarded(options: DeleteOptions, pod: Stored) -> DeleteOptions:
    """Return the options with the pod's resourceVersion as a precondition, unless they have one."""
    if options.version is not None:
        return options
    return replace(options, version=str(pod.rv))


def _eviction_options(target: Target, body: Object) -> Object:
    """Return the delete options of an Eviction. Raises BadRequest."""
    check_kind(body, "Eviction", body["apiVersion"] if body.get("apiVersion") == OLD_EVICTION else "policy/v1")
    metadata = check_metadata(body)
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name") != target.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = body.get("deleteOptions") or {}
    if not isinstance(options, dict):
        raise BadRequest("deleteOptions must be an object")
    return options
