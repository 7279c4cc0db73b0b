"""A live copy of one collection: a watch that begins with all objects, resumed across restarts of the API."""

import asyncio
import logging
import random
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol

import msgspec

from protocols.kinds.table import Resource
from protocols.kube.errors import ApiAway, ApiError, EventInvalid
from protocols.kube.meta import Object, key_of, version_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.reflector import InitialEvents, Next, Reflector
from protocols.process.tasks import awaited, cancel

log = logging.getLogger(__name__)
UNSERVED_S = 15.0
INITIAL_S = 30.0
"""Deadline of the initial events of a watch; without their end the collection is listed."""
INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
CHANGED = ("ADDED", "MODIFIED")
UNSUPPORTED = (400, 405, 422)
"""Codes by which a server rejects INITIAL."""
FORBIDDING = (401, 403, 404, 429)
"""Codes of an answer that a list would get as well."""
INTERNAL_TRIES = 10
"""Watches in a row, about 7 s, that may fail with 500 at one position: a server that cannot read the change after it
never sends that. client-go lists at the first one."""


class ResourceEventHandler(Protocol):
    """Callbacks in order, in the event loop; objects are read-only. Each has the view of the informer's resource."""

    def on_add(self, obj: Any) -> None:
        """Note a new object. Nothing by default."""
        return

    def on_update(self, old: Any, new: Any) -> None:
        """Note a changed object. By default as a new one."""
        self.on_add(new)

    def on_delete(self, obj: Any) -> None:
        """Note the end of an object. Nothing by default."""
        return


class InformerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Selection of a collection, and how its copy is followed; times in seconds."""

    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""
    keep: Callable[[Any], Any] | None = None
    """Reduces each object to what is retained, with name, uid and resourceVersion at least; None = all of it."""
    timeout_s: tuple[int, int] = (300, 600)
    """A watch is asked to last a random time in this range."""
    silence_s: float = 90.0
    """Without a byte (bookmarks come each minute) for so long, the connection is given up."""
    cached: bool = False
    """The first list may be as old as what the server has cached, as the events of any watch are. The server need not
    ask its store; later lists are consistent, so that what is known does not go back."""
    on_doubt: Callable[[], None] = lambda: None
    """Called before a list is applied that follows a position which the API rejected: after a restore from a backup
    its objects may have older contents and lower resourceVersions than what was seen."""
    optional: bool = False
    """An API that forbids the list counts as one that does not serve the resource: it checks rights before paths."""


class Informer:
    """`items` by `namespace/name` (or `name`). run() never returns; spawn it, cancel it to end."""

    def __init__(
        self, client: ApiClient, resource: Resource, options: InformerOptions, handler: ResourceEventHandler
    ) -> None:
        self._client = client
        self._resource = resource
        self._options = options
        self._handler = handler
        self._first = asyncio.Event()
        self.reflector = Reflector()
        self.items: dict[str, Any] = {}
        """Objects, with the view of the resource."""
        self.failure = ""
        """Why it is not watching right now; empty when all is well."""
        self._doubted = False
        """The API rejected our position: after a restore, equal resourceVersions may be different objects."""
        self.listing = False
        """Handlers are being called for a list, whose order is not the order of changes."""
        self.unserved = asyncio.Event()
        """The API does not serve the resource; asked again now and then."""

    @property
    def synced(self) -> bool:
        """True once a first list was applied."""
        return self._first.is_set()

    async def wait_synced(self, timeout: float) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self._first.wait()

    async def wait_known(self) -> None:
        """Wait until synced, or known not to be served: nothing to wait for."""
        waits = [awaited(event.wait()) for event in (self._first, self.unserved)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(*waits)

    async def run(self) -> None:
        while True:
            pause = await self._step()
            if pause:
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def _step(self) -> float:
        if self.reflector.next is Next.WATCH:
            return await self._follow(self._events())
        if self.reflector.next is Next.STREAM and self._client.streams:
            return await self._stream()
        return await self._list()

    async def _stream(self) -> float:
        """Take the initial events of a watch, then go on with it."""
        initial, events = InitialEvents(), self._events()
        try:
            async with asyncio.timeout(INITIAL_S):
                async for event in events:
                    if self._is_complete(initial, event):
                        break
                else:
                    return self.reflector.ended(0.0)
        except ApiAway as error:
            self.failure = str(error)
            return self.reflector.away()
        except (ApiError, EventInvalid, TimeoutError) as error:
            return self._not_streamed(error)
        self._apply(initial.objects.values(), version_of(event["object"]))
        return await self._follow(events)

    def _is_complete(self, initial: InitialEvents, event: Object) -> bool:
        if event["type"] in CHANGED:
            reduced = self._reduced(event["object"])
            return reduced is not None and initial.take({**event, "object": reduced})
        return initial.take(event)

    def _not_streamed(self, error: ApiError | EventInvalid | TimeoutError) -> float:
        if isinstance(error, ApiError) and error.code in FORBIDDING:
            return self._list_refused(error)
        self.failure = str(error) or f"no end of the initial events after {INITIAL_S:.0f} s"
        if isinstance(error, ApiError) and error.code in UNSUPPORTED and self._client.streams:
            self._client.streams = False
            log.info("server lists, it does not stream initial events error=%s", error)
        return self.reflector.unstreamed()

    async def _list(self) -> float:
        try:
            answer = await self._client.list(
                self._resource,
                self._options.namespace,
                query={"resourceVersion": "0"} if self._may_be_old() else {},
                field_selector=self._options.field_selector,
                label_selector=self._options.label_selector,
            )
        except ApiError as error:
            return self._list_refused(error)
        except ApiAway as error:
            self.failure = str(error)
            return self.reflector.broken(0.0)
        items = [self._reduced({**self._resource.type_meta, **obj}) for obj in answer.get("items") or ()]
        return self._apply([obj for obj in items if obj is not None], version_of(answer))

    def _apply(self, objects: Iterable[Object], version: str) -> float:
        self.listing = True
        if self._doubted:
            self._options.on_doubt()
        try:
            self._replace(objects)
        finally:
            self.listing = self._doubted = False
        self.unserved.clear()
        self.failure = ""
        self._first.set()
        return self.reflector.listed(version)

    def _list_refused(self, error: ApiError) -> float:
        repeated, self.failure = self.failure == str(error), str(error)
        absent = error.code == 404 or (self._options.optional and error.code == 403)
        if absent or error.code == 403:
            outcome = "resource is not served, going on without it" if absent else "list forbidden, will retry"
            report = log.debug if repeated else log.warning
            report("%s resource=%s error=%s", outcome, self._resource.full_name, error)
        if not absent:
            return self.reflector.broken(0.0)
        self.unserved.set()
        return UNSERVED_S

    def _replace(self, objects: Iterable[Object]) -> None:
        """Report the difference, deletions first, so that a name is free before it is taken again."""
        fresh = {key_of(obj): obj for obj in objects}
        for key in [key for key in self.items if key not in fresh]:
            self._delete(self.items[key])
        for obj in fresh.values():
            self._upsert(obj)

    def _reduced(self, obj: Object) -> Object | None:
        """Return what is retained of an object; of one that is unfit what is known already.

        It is reduced before the next one is read: memory that whole objects of a large list took stays in use.
        """
        keep = self._options.keep
        try:
            return keep(obj) if keep else obj
        except Exception as error:  # as in _upsert
            self._unfit(obj, error)
            return self.items.get(key_of(obj))

    def _events(self) -> AsyncIterator[Object]:
        options = self._options
        return self._client.watch(self._resource, options.namespace, query=self._query(), silence=options.silence_s)

    async def _follow(self, events: AsyncIterator[Object]) -> float:
        began = time.monotonic()
        try:
            async for event in events:
                self._take(event)
        except ApiAway as error:
            self.failure = str(error)
            return self.reflector.broken(time.monotonic() - began)
        except ApiError as error:
            return self._refused(error, time.monotonic() - began)
        except EventInvalid as error:
            self.failure = str(error)
            return self.reflector.expired(time.monotonic() - began)
        return self.reflector.ended(time.monotonic() - began)

    def _refused(self, error: ApiError, lasted: float) -> float:
        self.failure = str(error)
        self._doubted |= error.code == 410
        internal = error.code == 500 and self.reflector.failures < INTERNAL_TRIES
        if error.code in (401, 403, 429) or error.code > 500 or internal:
            return self.reflector.broken(lasted)
        return self.reflector.expired(lasted)

    def _query(self) -> dict[str, str]:
        position = self.reflector.position
        query = {
            **({} if position else INITIAL),
            "resourceVersion": "0" if self._may_be_old() else position,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*self._options.timeout_s)),
            "fieldSelector": self._options.field_selector,
            "labelSelector": self._options.label_selector,
        }
        return {name: text for name, text in query.items() if text}

    def _may_be_old(self) -> bool:
        return self._options.cached and not self.reflector.lists

    def _take(self, event: Object) -> None:
        obj = event["object"]
        if event["type"] in CHANGED and (reduced := self._reduced(obj)) is not None:
            self._upsert(reduced)
        elif event["type"] == "DELETED":
            self._delete(obj)
        self.failure = ""
        self.reflector.moved(version_of(obj))

    def _upsert(self, obj: Object) -> None:
        try:
            self._put(obj)
        except Exception as error:  # one bad object must not keep others from the handlers
            self._unfit(obj, error)

    def _unfit(self, obj: Object, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}"
        details = (self._resource.full_name, key_of(obj), type(error).__name__, error, where)
        log.error("object is left out resource=%s key=%s error=%s: %s at %s", *details)

    def _put(self, obj: Object) -> None:
        key = key_of(obj)
        if (old := self.items.get(key)) is not None and _uid(old) != _uid(obj):
            self._delete(old)
            old = None
        self.items[key] = obj
        if old is None:
            self._handler.on_add(obj)
        elif version_of(old) != version_of(obj) or (self._doubted and old != obj):
            self._handler.on_update(old, obj)

    def _delete(self, obj: Object) -> None:
        if self.items.pop(key_of(obj), None) is None:
            return
        try:
            self._handler.on_delete(obj)
        except Exception as error:  # as above
            self._unfit(obj, error)


def _uid(obj: Object) -> Any:
    return obj.get("metadata", {}).get("uid")
