"""Carries out what namespaces need: creates what is missing, empties and finalizes what ends."""

import asyncio
import logging
from collections.abc import Callable

from actors.controllers.namespaces import CONTENT, contents, ends, finalized, missing_namespaces
from protocols.kube.client import ApiAway, ApiClient, ApiError, Object
from protocols.kube.meta import name_of
from protocols.kube.resources import NAMESPACES, PODS, Resource

RETRY_S = 1.0


class NamespaceKeeper:
    """A handler of namespaces. Work is keyed by name and level-triggered: what fails is looked at again."""

    def __init__(self, client: ApiClient, ca: str, log: logging.Logger, items: Callable[[], dict[str, Object]]) -> None:
        self._client = client
        self._ca = ca
        self._log = log
        self._items = items
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()

    def on_add(self, obj: Object) -> None:
        self.look(name_of(obj))

    def on_update(self, old: Object, new: Object) -> None:
        self.look(name_of(new))

    def on_delete(self, obj: Object) -> None:
        self.look(name_of(obj))

    def look(self, name: str) -> None:
        self._dirty.add(name)
        self._wake.set()

    def content_changed(self, namespace: str) -> None:
        """Something in the namespace was deleted: restore it, or go on ending it."""
        if namespace in self._items():
            self.look(namespace)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            again = [name for name in sorted(self._dirty) if not await self._tend(name)]
            if again:
                await asyncio.sleep(RETRY_S)
                for name in again:
                    self.look(name)

    async def _bootstrap(self) -> None:
        for name in missing_namespaces(self._items()):
            await self._create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "")

    async def _tend(self, name: str) -> bool:
        self._dirty.discard(name)
        try:
            await self._bootstrap()
            namespace = self._items().get(name)
            if namespace is not None and ends(namespace):
                return await self._end(namespace)
            for create in contents(name, self._ca) if namespace is not None else []:
                await self._create(create.resource, create.obj, create.namespace)
        except (ApiAway, ApiError) as error:
            self._log.info("namespace %s: %s", name, error)
            return False
        return True

    async def _create(self, resource: Resource, obj: Object, namespace: str) -> None:
        try:
            await self._client.create(resource, obj, namespace)
        except ApiError as error:
            if error.code not in (403, 404, 409):
                raise  # 409: it is there; 403, 404: its namespace ends

    async def _end(self, namespace: Object) -> bool:
        """Delete what is in it; finalize once nothing is left. True when that is done."""
        name, left = name_of(namespace), 0
        for resource in CONTENT:
            items = (await self._client.list(resource, name)).get("items") or []
            left += len(items)
            for item in items:
                await self._delete(resource, item, name)
        if left:
            return False
        await self._client.update(NAMESPACES, finalized(namespace), "", "finalize")
        return True

    async def _delete(self, resource: Resource, item: Object, namespace: str) -> None:
        try:
            if resource is not PODS or "deletionTimestamp" not in item["metadata"]:
                await self._client.delete(resource, name_of(item), namespace)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
