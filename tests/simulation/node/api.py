"""A model of the API for one node: the rules of tests/support/memory_api.py, over a network that delays and loses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from protocols.kinds.patches.json_patch import apply_merge_patch
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.table import EVENTS, PODS, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, meta, version_of
from protocols.kube.times import now
from protocols.kubeclient import client as client_module
from tests.simulation.model import Fault
from tests.simulation.world import faults
from tests.simulation.world.patching import substitute
from tests.simulation.world.process import Process, running
from tests.support.memory_api import MemoryApi, _shape, initial_events

if TYPE_CHECKING:
    from tests.simulation.world.world import World

LONGEST_S = 8.0
"""Seconds that a fault keeps the API away."""
_encode, _decode = msgspec.json.encode, msgspec.json.decode


class ModelApi(MemoryApi):
    """The objects, as the store has them. Methods without `async` run in no process."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.world = world
        self.away_until = 0.0
        """Until this time of the world nobody reaches it."""
        self.lost_share = world.draw("api_lost_share", 0.0, 0.05, 0.01)
        """Share of answers that are lost after the call took effect."""
        self.slow_s = world.draw("api_slow_s", 1.0, 0.1, 0.0)
        """Seconds that a request, or its answer, takes at most beside the usual."""
        self.watches_slow_s = world.draw("api_watches_slow_s", 2.0, 0.2, 0.0)
        """Seconds that a watch is behind at most, beside the usual."""
        self.backup_share = 0.0
        """Share of a node's writes of pods that are lost after their answer, see `_restored`."""
        self.taken: set[str] = set()
        """Uids of pods of which a write was lost so."""
        self.made_at: dict[str, float] = {}
        """The world's elapsed time of each object's creation, by uid."""
        self.watches: dict[Watch, None] = {}
        self.statuses: list[tuple[float, Object]] = []
        self.recorded = 0

    @property
    def away(self) -> bool:
        return self.world.now < self.away_until

    def latency(self, slow_s: float) -> float:
        """Draw the time that something takes on its way to or from the API."""
        slow = self.world.random("api/slow").uniform(0.0, slow_s) if slow_s else 0.0
        return self.world.latency() + slow

    def go_away(self, seconds: float) -> None:
        """Break every watch and every call for so long."""
        self.away_until = self.world.now + seconds
        for watch in list(self.watches):
            watch.end()

    def away_by_fault(self, world: "World", fault: Fault) -> None:
        """Let nobody reach it for a while."""
        self.go_away(fault.value * LONGEST_S)

    def drop(self, resource: Resource, name: str, namespace: str = "") -> None:
        super().drop(resource, name, namespace)
        self._notify(resource)

    def remove(self, name: str, namespace: str, grace: int) -> None:
        """Delete a pod as a user does: its node ends it."""
        known = self._known(PODS, name, namespace)
        if meta(known).get("deletionTimestamp"):
            return
        marks = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": grace}
        self._store(PODS, {**known, "metadata": {**meta(known), **marks}})

    def _store(self, resource: Resource, obj: Object) -> Object:
        stored = super()._store(resource, _decode(_encode(obj)))
        self.made_at.setdefault(meta(stored)["uid"], self.world.elapsed)
        self._notify(resource)
        return stored

    def _notify(self, resource: Resource) -> None:
        for watch in self.watches:
            if watch.resource.plural == resource.plural:
                watch.wake()

    def pod_written(self, uid: str, work: Callable[[], Object]) -> Object:
        """Let a node write a pod; some writes are lost with all else since a backup from right before them."""
        if self.world.random("api/backup").random() >= self.backup_share:
            return work()
        pods, log = dict(self.objects[PODS.plural]), len(self.log[PODS.plural])
        answer = work()
        self._restored(pods, log)
        self.taken.add(uid)
        return answer

    def _restored(self, pods: dict[str, Object], log: int) -> None:
        """Go back to these pods. Revisions are not used again.

        In a half of the cases no watch had shown the write, and all go on; in the others each begins anew with a list.
        """
        self.objects[PODS.plural] = pods
        del self.log[PODS.plural][log:]
        if self.world.random("api/backup").random() < 0.5:
            for watch in list(self.watches):
                watch.expire()

    def patched(self, resource: Resource, name: str, namespace: str, body: Any, kind: str, subresource: str) -> Object:
        known = _decode(_encode(self._known(resource, name, namespace)))
        merge = partial(apply_strategic_patch, _shape(resource)) if kind == "strategic" else apply_merge_patch
        return self._update(resource, merge(known, body), namespace, subresource, patched=body)

    def delete_now(self, resource: Resource, name: str, namespace: str, uid: str) -> Object:
        """What a node or driver asks for: the object is gone."""
        known = self._known(resource, name, namespace)
        if uid and meta(known)["uid"] != uid:
            raise ApiError(409, {"message": "uid differs", "reason": "Conflict"})
        self.drop(resource, name, namespace)
        return {}


class Watch:
    """One open watch; `at` is its place in the log."""

    def __init__(self, api: ModelApi, process: Process, resource: Resource, since: int) -> None:
        self.resource, self.broken = resource, False
        self.expired = False
        self.arrived = asyncio.Event()
        self._api, self._process = api, process
        log = api.log[resource.plural]
        self.at = next((at for at, change in enumerate(log) if _version(change[2]) > since), len(log))
        self.until = len(log)
        """The end of what has arrived."""
        self._due = 0.0

    def wake(self) -> None:
        """Let what is in the log arrive, after all that is on its way."""
        api, until = self._api, len(self._api.log[self.resource.plural])
        self._due = max(self._due, api.world.now + api.latency(api.watches_slow_s))
        api.world.at_time(self._due, self._process, lambda: self._arrive(until))

    def end(self) -> None:
        """Break it, with all that is on its way."""
        self.broken = True
        self._api.world.at(self._api.world.latency(), self._process, self.arrived.set)

    def expire(self) -> None:
        """End it for good: its position is of a history that was replaced."""
        self.expired = True
        self.end()

    def _arrive(self, until: int) -> None:
        self.until = until
        self.arrived.set()


class ModelClient:
    """Stands for protocols.kubeclient.client.ApiClient."""

    api: ModelApi
    """Set before the run."""
    streams = True

    def __init__(self, options: Any) -> None:
        self._process = running(self.api.world)

    async def start(self) -> None: ...
    async def close(self) -> None: ...

    async def _ask(self, work: Callable[[], Object]) -> Object:
        """Do it in the API between two delays. Raises ApiAway before it, or after it took effect."""
        api, world = self.api, self.api.world
        await asyncio.sleep(api.latency(api.slow_s))
        if api.away:
            await asyncio.sleep(0.2)
            raise ApiAway("nobody listens")
        answer = _encode(work())
        world.trace.message(world.now, 1, self._process.pid, answer)
        await asyncio.sleep(api.latency(api.slow_s))
        if api.away or (api.lost_share and world.random("api").random() < api.lost_share):
            raise ApiAway("the connection broke before the answer")
        found: Object = _decode(answer)
        return found

    async def get(self, resource: Resource, name: str, namespace: str = "", timeout: float | None = None) -> Object:
        return await self._ask(lambda: self.api._known(resource, name, namespace))

    async def list(self, resource: Resource, namespace: str = "", *, field_selector: str = "", **_: Any) -> Object:
        def found() -> Object:
            items = [each for each in self.api.objects[resource.plural].values() if selects(field_selector, each)]
            return {"items": items, "metadata": {"resourceVersion": str(self.api.version)}}

        return await self._ask(found)

    async def watch(
        self, resource: Resource, namespace: str = "", *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[Object]:
        api, selector = self.api, query.get("fieldSelector", "")
        if api.away:
            raise ApiAway("nobody listens")
        if "sendInitialEvents" in query:
            state = await self.list(resource, namespace, field_selector=selector)
            for event in initial_events(state):
                yield event
            since = int(version_of(state))
        else:
            since = int(query["resourceVersion"])
        watch = Watch(api, self._process, resource, since)
        api.watches[watch] = None
        try:
            async with asyncio.timeout(float(query["timeoutSeconds"])):
                while True:
                    log = api.log[resource.plural]
                    while watch.at < min(watch.until, len(log)) and not watch.broken:
                        kind, _, obj = log[watch.at]
                        watch.at += 1
                        if selects(selector, obj):
                            yield {"type": kind, "object": _decode(_encode(obj))}
                    if watch.expired:
                        raise ApiError(410, {"message": "too old resource version", "reason": "Expired"})
                    if watch.broken:
                        raise ApiAway("the watch broke")
                    watch.arrived.clear()
                    await watch.arrived.wait()
        except TimeoutError:
            return
        finally:
            api.watches.pop(watch, None)

    async def create(self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        if resource is EVENTS:
            return await self._ask(lambda: self._record(obj))
        return await self._ask(lambda: self.api._create(resource, obj, namespace))

    def _record(self, obj: Object) -> Object:
        self.api.recorded += 1
        return obj

    async def update(self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        return await self._ask(lambda: self.api._update(resource, obj, namespace, subresource))

    async def patch(
        self, resource: Resource, name: str, namespace: str = "", body: Any = None, *, kind: str = "merge",
        subresource: str = "", timeout: float | None = None,
    ) -> Object:  # fmt: skip
        if resource is EVENTS:
            return await self._ask(lambda: self._record(body))
        return await self._write(
            resource,
            meta(body).get("uid"),
            lambda: self.api.patched(resource, name, namespace, body, kind, subresource),
        )

    async def _write(self, resource: Resource, uid: str | None, work: Callable[[], Object]) -> Object:
        if resource is not PODS or not uid:
            return await self._ask(work)
        return await self._ask(lambda: self.api.pod_written(uid, work))

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace: int | None = None, uid: str = "",
        version: str = "", policy: str = "",
    ) -> Object:  # fmt: skip
        return await self._write(resource, uid, lambda: self.api.delete_now(resource, name, namespace, uid))

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, field_selector: str = "", policy: str = ""
    ) -> None:
        def change() -> Object:
            for each in list(self.api.objects[resource.plural].values()):
                if selects(field_selector, each):
                    self.api.drop(resource, meta(each)["name"], meta(each).get("namespace", ""))
            return {}

        await self._ask(change)


def use_model(api: ModelApi) -> None:
    """Let every client of the API talk to the model. Import what runs first."""
    ModelClient.api = api
    faults.KINDS["api"] = api.away_by_fault
    substitute(client_module.ApiClient, ModelClient)


def selects(selector: str, obj: Object) -> bool:
    """Return True if the fields of an object are as a selector demands."""
    for part in filter(None, selector.split(",")):
        path, _, wanted = part.partition("=")
        found: Any = obj
        for name in path.split("."):
            found = (found or {}).get(name)
        if (found or "") != wanted:
            return False
    return True


def _version(obj: Object) -> int:
    return int(meta(obj)["resourceVersion"])
