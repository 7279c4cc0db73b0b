"""Start and stop an informer for every custom resource, so that garbage collection covers their objects."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from actors.controllers.common.informers import FanOut, trim_to_metadata
from actors.controllers.common.kinds import Kinds
from actors.controllers.garbage.collector import Collector, CollectorHandler
from protocols.kinds.table import Resource
from protocols.kube.meta import Object, name_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler

Spawn = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class _Followers(Protocol):
    def handlers(self, resource: Resource) -> tuple[ResourceEventHandler, ...]: ...
    def follow(self, resource: Resource, informer: Informer) -> None: ...


class CustomResourceFollower(ResourceEventHandler):
    """Handle CustomResourceDefinitions. `begin` starts informers for those that were added before it."""

    def __init__(
        self, kinds: Kinds, metadata: ApiClient, collector: Collector, spawn: Spawn, others: _Followers | None = None
    ) -> None:
        """`others` follow the metadata of custom resources, too."""
        self._others = others
        self._kinds = kinds
        self._metadata = metadata
        self._collector = collector
        self._spawn = spawn
        self._running: dict[str, tuple[Informer, ResourceEventHandler, asyncio.Task[None]]] = {}
        self._begun = False

    async def begin(self, timeout: float) -> None:
        """Wait until the informers of all present custom resources synced, or `timeout` seconds have passed."""
        self._begun = True
        for resource in self._kinds.custom():
            self._follow(resource)
        waiting = [informer.wait_synced(timeout) for informer, _, _ in self._running.values()]
        await asyncio.gather(*waiting, return_exceptions=True)

    def on_add(self, obj: Object) -> None:
        fresh = self._kinds.put(obj)
        if not self._kinds.known(name_of(obj)):
            self._leave(name_of(obj))
        if fresh is not None and self._begun:
            self._leave(name_of(obj))
            self._follow(fresh)
            self._collector.kind_served(fresh)

    def on_delete(self, obj: Object) -> None:
        self._kinds.remove(name_of(obj))
        self._leave(name_of(obj))

    def _follow(self, resource: Resource) -> None:
        others = self._others.handlers(resource) if self._others is not None else ()
        handler = FanOut(CollectorHandler(self._collector, resource), *others)
        informer = Informer(self._metadata, resource, InformerOptions(keep=trim_to_metadata, cached=True), handler)
        if self._others is not None:
            self._others.follow(resource, informer)
        task = self._spawn(informer.run(), f"owned-{resource.full_name}")
        self._running[resource.full_name] = informer, handler, task

    def _leave(self, name: str) -> None:
        """Stop the informer of a definition and treat all its objects as deleted."""
        running = self._running.pop(name, None)
        if running is not None:
            informer, handler, task = running
            task.cancel()
            for obj in informer.items.values():
                handler.on_delete(obj)
            informer.items.clear()  # quotas may ask for them later
