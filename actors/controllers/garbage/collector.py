"""Garbage collector: delete objects without owners and finish foreground and orphaning deletions.

Every deletion is decided twice: on the graph, which is cheap, then on live reads, because a deletion cannot be undone.
"""

import asyncio
import logging
from collections import OrderedDict

from actors.controllers.common.kinds import Kinds
from actors.controllers.garbage.graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Graph,
    GraphNode,
    OwnerNode,
    OwnerState,
    RemoveOwners,
    decide,
    graph_node,
)
from protocols.kinds.table import Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, meta, uid_of, version_of
from protocols.kubeclient.client import ApiClient, find
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import ResourceEventHandler
from protocols.kubeclient.workqueue import Retries

WORKERS = 4


class Collector:
    """Checks each object whose owners or dependents changed; errors are retried with backoff."""

    def __init__(
        self, client: ApiClient, log: logging.Logger, recorder: EventRecorder, kinds: Kinds | None = None
    ) -> None:
        self._client, self._recorder = client, recorder
        self._log = log
        self._graph = Graph(kinds)
        self._retries = Retries[str](self._enqueue)
        self._dirty: OrderedDict[str, None] = OrderedDict()
        # Not a plain dict: finding its first key scans past every slot freed at its front.
        self._woken = asyncio.Event()

    def upsert(self, resource: Resource, obj: Object) -> None:
        self._enqueue(*self._graph.put(graph_node(resource, obj)))

    def remove(self, obj: Object) -> None:
        self._enqueue(*self._graph.remove(uid_of(obj)))

    def kind_served(self, resource: Resource) -> None:
        """Check the dependents of a kind that is newly served; until now their owners counted as living."""
        self._enqueue(*self._graph.owned_by_kind(resource))

    def _enqueue(self, *uids: str) -> None:
        for uid in uids:
            self._dirty[uid] = None
        if uids:
            self._woken.set()

    async def run(self) -> None:
        """Collect until cancelled. Call it after all informers synced: an empty graph knows no living owner."""
        await asyncio.gather(*(self._work() for _ in range(WORKERS)))

    async def _work(self) -> None:
        while True:
            await self._woken.wait()
            if not self._dirty:
                self._woken.clear()
                continue
            await self._process(self._dirty.popitem(last=False)[0])

    async def _process(self, uid: str) -> None:
        try:
            await self._step(uid)
        except (ApiAway, ApiError) as error:
            if not (isinstance(error, ApiError) and error.code == 404):
                self._log.info("garbage collection failed uid=%s error=%s", uid, error)
                self._retries.failed(uid)
                return
        except Exception as error:
            self._retries.broken(uid, "garbage collection", uid, error)
            return
        self._retries.done(uid)

    async def _step(self, uid: str) -> None:
        node = self._graph.nodes.get(uid)
        if node is None:
            return
        for owner in self._graph.misplaced(node):
            self._warn(node, owner)
        if node.terminating:
            await self._end(node)
        elif not all(self._graph.owner_state(node, owner) is OwnerState.LIVING for owner in node.owners):
            await self._collect(node)

    def _warn(self, node: GraphNode, owner: OwnerNode) -> None:
        """Report why the object is deleted, or never is, although the user sees its owner."""
        obj = {
            **node.resource.type_meta,
            "metadata": {"name": node.name, "namespace": node.namespace, "uid": node.uid},
        }
        named = f"{owner.api_version}/{owner.kind}, namespace: {node.namespace}, name: {owner.name}, uid: {owner.uid}"
        text = f'ownerRef [{named}] does not exist in namespace "{node.namespace}"'
        self._recorder.event(obj, "Warning", "OwnerRefInvalidNamespace", text)

    async def _end(self, node: GraphNode) -> None:
        if ORPHAN in node.finalizers:
            for child in self._graph.children(node.uid):
                await self._orphan(child, node.uid)
            await self._release(node, ORPHAN)
        elif node.waiting and not self._graph.blocked(node.uid):
            await self._release(node, FOREGROUND)

    async def _collect(self, seen: GraphNode) -> None:
        """Decide on live reads and act. ApiError and ApiAway lead to another attempt."""
        live = await self._live(seen)
        if live is None:
            return
        node = graph_node(seen.resource, live)
        states = [await self._state(node, owner) for owner in node.owners]
        match decide(node, states, bool(self._graph.children(node.uid))):
            case Delete(policy):
                await self._delete(node, version_of(live), policy)
            case RemoveOwners(uids):
                await self._disown(node, live, uids)

    async def _state(self, node: GraphNode, owner: OwnerNode) -> OwnerState:
        known = self._graph.owner_state(node, owner)
        resource = self._graph.resource_of(owner)
        if known is not None or resource is None:
            return known or OwnerState.LIVING
        obj = await find(self._client, resource, owner.name, node.namespace if resource.namespaced else "")
        if obj is None or uid_of(obj) != owner.uid:
            return OwnerState.ABSENT
        return OwnerState.WAITING if graph_node(resource, obj).waiting else OwnerState.LIVING

    async def _live(self, node: GraphNode) -> Object | None:
        obj = await find(self._client, node.resource, node.name, node.namespace)
        return obj if obj is not None and uid_of(obj) == node.uid else None

    async def _delete(self, node: GraphNode, version: str, policy: str) -> None:
        await self._client.delete(
            node.resource, node.name, node.namespace, uid=node.uid, version=version, policy=policy
        )
        self._log.info(
            "deleted object without owners kind=%s object=%s/%s", node.resource.kind, node.namespace, node.name
        )

    async def _orphan(self, child: GraphNode, owner: str) -> None:
        live = await self._live(child)
        if live is not None:
            await self._disown(child, live, frozenset((owner,)))

    async def _disown(self, node: GraphNode, live: Object, uids: frozenset[str]) -> None:
        references = meta(live).get("ownerReferences") or []
        left = [reference for reference in references if reference.get("uid") not in uids]
        if len(left) < len(references):
            await self._patch(node, live, {"ownerReferences": left})

    async def _release(self, node: GraphNode, finalizer: str) -> None:
        live = await self._live(node)
        held = meta(live).get("finalizers") or [] if live is not None else []
        if live is not None and finalizer in held:
            await self._patch(node, live, {"finalizers": [name for name in held if name != finalizer]})

    async def _patch(self, node: GraphNode, live: Object, metadata: Object) -> None:
        body = {"metadata": {"uid": node.uid, "resourceVersion": version_of(live), **metadata}}
        await self._client.patch(node.resource, node.name, node.namespace, body)


class CollectorHandler(ResourceEventHandler):
    """Feed the events of one resource's informer to the collector."""

    def __init__(self, collector: Collector, resource: Resource) -> None:
        self._collector = collector
        self._resource = resource

    def on_add(self, obj: Object) -> None:
        self._collector.upsert(self._resource, obj)

    def on_delete(self, obj: Object) -> None:
        self._collector.remove(obj)
