"""Garbage collection: deletes what lost its last owner, and ends what was deleted in the foreground or orphaning.

Decided twice: on the graph, which costs nothing, then on live reads, as what is deleted does not come back.
"""

import asyncio
import logging
from collections import OrderedDict

from actors.controllers.common.kinds import Kinds
from actors.controllers.common.workqueue import Retries
from actors.controllers.garbage.graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Disown,
    Graph,
    Owner,
    State,
    Thing,
    decide,
    thing_of,
)
from protocols.kube.client import ApiClient
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, meta, uid_of, version_of
from protocols.kube.resources import Resource

WORKERS = 4


class Collector:
    def __init__(self, client: ApiClient, log: logging.Logger, kinds: Kinds | None = None) -> None:
        self._client = client
        self._log = log
        self._graph = Graph(kinds)
        self._retries = Retries()
        self._dirty: OrderedDict[str, None] = OrderedDict()
        """A plain dict would search past all that was taken from its front for each next one."""
        self._woken = asyncio.Event()

    def saw(self, resource: Resource, obj: Object) -> None:
        self._look(*self._graph.put(thing_of(resource, obj)))

    def lost(self, obj: Object) -> None:
        self._look(*self._graph.remove(uid_of(obj)))

    def met(self, resource: Resource) -> None:
        """A kind is served from now on: who named an owner of it was let live until now."""
        self._look(*self._graph.owned_by_kind(resource))

    def _look(self, *uids: str) -> None:
        for uid in uids:
            self._dirty[uid] = None
        if uids:
            self._woken.set()

    async def run(self) -> None:
        """Start it once everything has been seen: an empty graph knows no living owner."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._woken.wait()
            if not self._dirty:
                self._woken.clear()
                continue
            await self._tend(self._dirty.popitem(last=False)[0])

    async def _tend(self, uid: str) -> None:
        try:
            await self._step(uid)
        except (ApiAway, ApiError) as error:
            if not (isinstance(error, ApiError) and error.code == 404):
                self._log.info("garbage collection of %s: %s", uid, error)
                asyncio.get_running_loop().call_later(self._retries.failed(uid), self._look, uid)
                return
        self._retries.done(uid)

    async def _step(self, uid: str) -> None:
        thing = self._graph.things.get(uid)
        if thing is None:
            return
        if thing.terminating:
            await self._end(thing)
        elif not all(self._graph.standing(thing, owner) is State.LIVING for owner in thing.owners):
            await self._judge(thing)

    async def _end(self, thing: Thing) -> None:
        if ORPHAN in thing.finalizers:
            for child in self._graph.children(thing.uid):
                await self._orphan(child, thing.uid)
            await self._release(thing, ORPHAN)
        elif thing.waiting and not self._graph.blocked(thing.uid):
            await self._release(thing, FOREGROUND)

    async def _judge(self, seen: Thing) -> None:
        """Raises ApiError, ApiAway: then it is judged again later."""
        live = await self._live(seen)
        if live is None:
            return
        thing = thing_of(seen.resource, live)
        states = [await self._state(thing, owner) for owner in thing.owners]
        match decide(thing, states, bool(self._graph.children(thing.uid))):
            case Delete(policy):
                await self._delete(thing, version_of(live), policy)
            case Disown(uids):
                await self._disown(thing, live, uids)

    async def _state(self, thing: Thing, owner: Owner) -> State:
        known = self._graph.standing(thing, owner)
        resource = self._graph.resource_of(owner)
        if known is not None or resource is None:
            return known or State.LIVING
        try:
            found = await self._client.get(resource, owner.name, thing.namespace if resource.namespaced else "")
        except ApiError as error:
            if error.code == 404:
                return State.ABSENT
            raise
        if uid_of(found) != owner.uid:
            return State.ABSENT
        return State.WAITING if thing_of(resource, found).waiting else State.LIVING

    async def _live(self, thing: Thing) -> Object | None:
        try:
            found = await self._client.get(thing.resource, thing.name, thing.namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return found if uid_of(found) == thing.uid else None

    async def _delete(self, thing: Thing, version: str, policy: str) -> None:
        await self._client.delete(
            thing.resource, thing.name, thing.namespace, uid=thing.uid, version=version, policy=policy
        )
        self._log.info("deleted %s %s/%s: its owners are gone", thing.resource.kind, thing.namespace, thing.name)

    async def _orphan(self, child: Thing, owner: str) -> None:
        live = await self._live(child)
        if live is not None:
            await self._disown(child, live, frozenset((owner,)))

    async def _disown(self, thing: Thing, live: Object, uids: frozenset[str]) -> None:
        references = meta(live).get("ownerReferences") or []
        left = [reference for reference in references if reference.get("uid") not in uids]
        if len(left) < len(references):
            await self._patch(thing, live, {"ownerReferences": left})

    async def _release(self, thing: Thing, finalizer: str) -> None:
        live = await self._live(thing)
        held = meta(live).get("finalizers") or [] if live is not None else []
        if live is not None and finalizer in held:
            await self._patch(thing, live, {"finalizers": [name for name in held if name != finalizer]})

    async def _patch(self, thing: Thing, live: Object, metadata: Object) -> None:
        body = {"metadata": {"uid": thing.uid, "resourceVersion": version_of(live), **metadata}}
        await self._client.patch(thing.resource, thing.name, thing.namespace, body)


class CollectorHandler:
    """One resource's informer tells the collector."""

    def __init__(self, collector: Collector, resource: Resource) -> None:
        self._collector = collector
        self._resource = resource

    def on_add(self, obj: Object) -> None:
        self._collector.saw(self._resource, obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._collector.saw(self._resource, new)

    def on_delete(self, obj: Object) -> None:
        self._collector.lost(obj)
