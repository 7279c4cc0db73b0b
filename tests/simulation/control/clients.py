"""Clients of the API over HTTP: writers, a watcher that resumes where it was, and an informer of the project's own."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from protocols.kinds.table import CONFIGMAPS
from protocols.kube.errors import ApiAway, ApiError, EventInvalid
from protocols.kube.meta import Object, key_of, version_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.simulation.control.history import History, Seen
from tests.simulation.model import Main
from tests.simulation.world.process import Process
from tests.simulation.world.transport import SimTransport
from tests.support.linear import Operation

NAMESPACE = "default"
KEYS = 6
RATE = 12.0
"""Attempts a second of one writer."""
LIST_SHARE = 0.3
SILENCE_S = 90.0
RETRY_S = 0.2
STATE_SHARE = 0.5
"""Share of a watcher's beginnings that are watches which send the state first, in place of lists."""
LEAVES_AFTER = 10, 100, 100, math.inf
"""Events after which a watcher leaves its server; it resumes at once, where it is, perhaps at another one."""


def value_of(obj: Object) -> bytes:
    """Return what tells one write of an object from all others."""
    data: dict[str, str] = obj.get("data") or {}
    return data.get("v", "").encode()


class HttpWriter:
    """Reads an object, then creates, replaces or deletes it; each call is recorded with the world's time."""

    def __init__(
        self, name: str, options: ClientOptions, prefix: bytes, history: History, torn_share: float = 0.0
    ) -> None:
        """`torn_share`: share of its writes of which a reset cuts the answer short."""
        self.name, self._options, self._prefix, self._history = name, options, prefix, history
        self._torn_share = torn_share
        self._count = 0
        self._writes: tuple[bytes, float, Operation] | None = None
        """The write under way: its key, when the client read what it acts on, and the call without an answer."""

    def main(self) -> Main:
        async def main(process: Process) -> None:
            client = ApiClient(self._options)
            await client.start()
            chance = process.world.random(f"load/{self.name}")
            while True:
                if chance.random() < LIST_SHARE:
                    await self._list(process, client)
                else:
                    await self._once(process, client, chance)
                await asyncio.sleep(chance.expovariate(RATE))

        return main

    def killed(self) -> None:
        """Record the write under way: it may take effect."""
        if self._writes is not None:
            self._history.record(*self._writes)

    async def _list(self, process: Process, client: ApiClient) -> None:
        """List all: a consistent read of each key."""
        called = process.world.now
        try:
            answer = await client.list(CONFIGMAPS, NAMESPACE)
        except (ApiError, ApiAway):
            return
        held = {obj["metadata"]["name"]: value_of(obj) for obj in answer.get("items") or ()}
        for name in (f"h{number}" for number in range(KEYS)):
            read = Operation("get", called, process.world.now, seen=held.get(name))
            self._history.record(self._prefix + f"{NAMESPACE}/{name}".encode(), called, read)

    async def _once(self, process: Process, client: ApiClient, chance: random.Random) -> None:
        name, deletes = f"h{chance.randrange(KEYS)}", chance.random() < 0.2
        world, key = process.world, self._prefix + f"{NAMESPACE}/{name}".encode()
        called, held = world.now, None
        try:
            held = await client.get(CONFIGMAPS, name, NAMESPACE)
        except ApiError as error:
            if error.code != 404:
                return
        except ApiAway:
            return
        seen = value_of(held) if held else None
        self._history.record(key, called, Operation("get", called, world.now, seen=seen))
        began, called, value = called, world.now, None if held and deletes else self._value()
        self._writes = key, began, Operation("cas", called, value=value, expected=seen)
        if self._torn_share and world.random(f"torn/{self.name}").random() < self._torn_share:
            _tear_answers(process)
        try:
            answer = await self._write(client, name, held, value)
        except (ApiError, ApiAway) as error:
            self._writes = None
            if isinstance(error, ApiAway) or error.code >= 500:
                self._history.unknown += 1
                self._history.record(key, began, Operation("cas", called, value=value, expected=seen))
            return
        self._writes = None
        if value is None:  # also the answer where somebody else deleted it between two tries of the server
            self._history.record(key, began, Operation("cas", called, expected=seen))
            self._history.record(key, began, Operation("get", called, world.now))
        else:
            self._history.record(key, began, Operation("cas", called, world.now, value=value, expected=seen))
            self._history.acknowledge(key, began, int(version_of(answer)), value)

    async def _write(self, client: ApiClient, name: str, held: Object | None, value: bytes | None) -> Object:
        if held is not None and value is None:
            return await client.delete(CONFIGMAPS, name, NAMESPACE, version=version_of(held))
        metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
        data = {"v": (value or b"").decode()}
        obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        if held is None:
            return await client.create(CONFIGMAPS, obj, NAMESPACE)
        metadata["resourceVersion"] = version_of(held)
        return await client.update(CONFIGMAPS, obj, NAMESPACE)

    def _value(self) -> bytes:
        self._count += 1
        return f"{self.name}-{self._count}".encode()


def _tear_answers(process: Process) -> None:
    """Reset the connections of a process within what arrives next: the server has done what it was asked for."""
    for end in process.ends:
        if isinstance(end, SimTransport):
            end.torn = True


class HttpWatcher:
    """Lists once and watches; resumes at its position after each end. Only 410 makes it list again."""

    def __init__(self, options: ClientOptions, history: History, namespace: str = NAMESPACE) -> None:
        self._options, self._history, self._namespace = options, history, namespace

    def main(self) -> Main:
        async def main(process: Process) -> None:
            client = ApiClient(self._options)
            await client.start()
            session = _Session(process, client, self._history, self._namespace)
            while True:
                await session.go_on()

        return main


class _Session:
    """A watcher's copy of the collection."""

    def __init__(self, process: Process, client: ApiClient, history: History, namespace: str) -> None:
        self._process, self._client, self._history = process, client, history
        self._namespace = process.notes["namespace"] = namespace
        self._position = ""
        self._items: dict[str, tuple[int, bytes]] = {}
        self._seen: Seen | None = None
        process.notes["items"] = self._items
        self._chance = process.world.random(f"load/{process.name}")

    async def go_on(self) -> None:
        try:
            if self._position:
                await self._watch()
            elif self._chance.random() < STATE_SHARE:
                await self._begin_with_state()
            else:
                await self._list()
        except ApiError as error:
            if error.code == 410:
                self._expired()
            await asyncio.sleep(RETRY_S)
        except (ApiAway, EventInvalid):
            await asyncio.sleep(RETRY_S)

    def _expired(self) -> None:
        if self._seen is not None:
            self._history.relist(self._seen.who, int(self._position))
        self._seen, self._position = None, ""

    async def _list(self) -> None:
        answer = await self._client.list(CONFIGMAPS, self._namespace)
        self._listed(answer.get("items") or [], version_of(answer))

    def _listed(self, objects: list[Object], version: str) -> None:
        self._items.clear()
        for obj in objects:
            self._items[key_of(obj)] = int(version_of(obj)), value_of(obj)
        self._position = version
        name = f"{self._process.name} pid {self._process.pid}"
        self._seen = Seen(name, start=int(version), below=f"{self._namespace}/")
        self._history.see(self._seen)

    async def _begin_with_state(self) -> None:
        """Watch from the state on: all objects, then a bookmark with the revision that they are of, then changes."""
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        objects: list[Object] = []
        async for event in self._client.watch(CONFIGMAPS, self._namespace, query=self._query(query), silence=SILENCE_S):
            if self._seen is not None:
                self._take(event["type"], event["object"])
            elif event["type"] == "BOOKMARK":
                self._listed(objects, version_of(event["object"]))
            else:
                objects.append(event["object"])

    def _query(self, query: dict[str, str]) -> dict[str, str]:
        return {**query, "allowWatchBookmarks": "true", "timeoutSeconds": str(self._chance.choice((3, 30, 300)))}

    async def _watch(self) -> None:
        query, left = self._query({"resourceVersion": self._position}), self._chance.choice(LEAVES_AFTER)
        watch = self._client.watch(CONFIGMAPS, self._namespace, query=query, silence=SILENCE_S)
        async with aclosing(cast("AsyncGenerator[Object]", watch)):
            async for event in watch:
                self._take(event["type"], event["object"])
                left -= 1
                if left <= 0:
                    return

    def _take(self, kind: str, obj: Object) -> None:
        assert self._seen is not None
        self._position = version_of(obj)
        revision = int(self._position)
        if kind == "BOOKMARK":
            self._seen.marks.append((len(self._seen.changes), revision))
            return
        key = key_of(obj)
        self._seen.changes.append((revision, key, kind == "DELETED"))
        if kind == "DELETED":
            self._items.pop(key, None)
        else:
            self._items[key] = revision, value_of(obj)


class Silent:
    """A handler of an informer that is read, not heard."""

    def on_add(self, obj: Object) -> None: ...
    def on_update(self, old: Object, new: Object) -> None: ...
    def on_delete(self, obj: Object) -> None: ...


class Fitting:
    """A handler of an informer: each event must fit to those before it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._uids: dict[str, str] = {}

    def on_add(self, obj: Object) -> None:
        key, uid = key_of(obj), obj["metadata"]["uid"]
        if key in self._uids:
            self._history.misreported.append(f"{key} is added as {uid} and is there as {self._uids[key]}")
        self._uids[key] = uid

    def on_update(self, old: Object, new: Object) -> None:
        key, before, uid = key_of(new), old["metadata"]["uid"], new["metadata"]["uid"]
        if not self._uids.get(key) == before == uid:
            self._history.misreported.append(f"{key} is updated from {before} to {uid}, another object")

    def on_delete(self, obj: Object) -> None:
        if self._uids.pop(key_of(obj), None) is None:
            self._history.misreported.append(f"{key_of(obj)} is deleted and was not there")


def informer(options: ClientOptions, history: History) -> Main:
    """Return the main of a client with the project's informer."""

    async def main(process: Process) -> None:
        client = ApiClient(options)
        await client.start()
        made = Informer(client, CONFIGMAPS, InformerOptions(), Fitting(history))
        process.notes["informer"] = made
        await made.run()

    return main


def items_of(process: Process) -> dict[str, int] | None:
    """Return what a client holds: revisions by `namespace/name`. None for other processes."""
    found: Informer | None = process.notes.get("informer")
    if found is not None:
        return {key: int(version_of(obj)) for key, obj in found.items.items()}
    items: dict[str, tuple[int, bytes]] | None = process.notes.get("items")
    return None if items is None else {key: revision for key, (revision, _) in items.items()}
