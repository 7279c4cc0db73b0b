"""An API in memory with the rules that concurrency rests on: versions, conflicts, uids, finalizers, status apart from
spec, and one log of changes per resource that followers read at their own pace."""

import asyncio
import copy
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from protocols.dra.pods import is_reserved_for
from protocols.kinds.patches.json_patch import apply_merge_patch
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import Shape
from protocols.kinds.table import PODS, RESOURCECLAIMS, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, join_key, key_of, meta, new_uid, version_of
from protocols.kube.objects import at
from protocols.kube.times import now
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import ResourceEventHandler


def _shape(resource: Resource) -> Shape | None:
    return kind_shape(resource.group, resource.version, resource.kind)


def initial_events(state: Object) -> Iterator[Object]:
    """Yield the events of a List object at the beginning of a watch, their end included."""
    yield from ({"type": "ADDED", "object": obj} for obj in state["items"])
    end = {"resourceVersion": version_of(state), "annotations": {"k8s.io/initial-events-end": "true"}}
    yield {"type": "BOOKMARK", "object": {"metadata": end}}


Fault = Callable[[str, Resource, str], BaseException | None]
Change = tuple[str, Object | None, Object]
"""ADDED, MODIFIED or DELETED, what was, what is."""


class MemoryApi:
    """Answers as ApiClient does. `fault` may refuse a write before it is carried out, `lose` after it was."""

    streams = True

    def __init__(self, seed: int | None = None) -> None:
        self.objects: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self.log: defaultdict[str, list[Change]] = defaultdict(list)
        self.version = 0
        self.fault: Fault = lambda verb, resource, name: None
        self.lose: Fault = lambda verb, resource, name: None
        self.random = random.Random(seed) if seed is not None else None
        self.gates: dict[tuple[str, str, str], asyncio.Event] = {}
        """Events that writes wait for, by verb, resource and name."""
        self.writes = 0
        self.deaf: set[str] = set()

    # what tests do

    def put(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """Create or replace, as somebody else would."""
        obj = copy.deepcopy(obj)
        known = self.objects[resource.plural].get(key_of(obj))
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        metadata = {"uid": new_uid(), "creationTimestamp": now(), **(meta(known) if known else {}), **meta(obj)}
        return self._store(resource, {**kind, **obj, "metadata": metadata})

    def drop(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Gone, whatever held it."""
        gone = self.objects[resource.plural].pop(join_key(namespace, name))
        self.version += 1
        self.log[resource.plural].append(("DELETED", gone, self._stamped(gone)))

    # what actors ask

    async def get(self, resource: Resource, name: str, namespace: str = "", timeout: float | None = None) -> Object:
        await self._pause()
        return copy.deepcopy(self._known(resource, name, namespace))

    async def start(self) -> None:
        """As ApiClient's."""

    async def close(self) -> None:
        """As ApiClient's."""

    async def list(
        self, resource: Resource, namespace: str = "", *, field_selector: str = "", **query: Any
    ) -> Object:  # fmt: skip
        """Of all selectors it knows `FIELD!=VALUE` alone."""
        await self._pause()
        unwanted = [term.split("!=") for term in field_selector.split(",") if "!=" in term]
        items = copy.deepcopy([
            obj for obj in self.objects[resource.plural].values()
            if all(at(obj, *path.split(".")) != value for path, value in unwanted)
        ])  # fmt: skip
        return {"items": items, "metadata": {"resourceVersion": str(self.version)}}

    async def watch(
        self, resource: Resource, namespace: str = "", *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[Object]:
        """In the order of the log, each follower at its own pace; `deaf` resources tell nothing."""
        if "sendInitialEvents" in query:
            state = await self.list(resource, namespace)
            for event in initial_events(state):
                yield event
            since = int(version_of(state))
        else:
            since = int(query["resourceVersion"])
        log, at = self.log[resource.plural], 0
        while True:
            await self._pause()
            if at == len(log) or resource.plural in self.deaf:
                await asyncio.sleep(0.001)
                continue
            kind, _, obj = log[at]
            at += 1
            if int(meta(obj)["resourceVersion"]) > since:
                yield {"type": kind, "object": copy.deepcopy(obj)}

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "", *,
        query: dict[str, str] | None = None,
    ) -> Object:  # fmt: skip
        return await self._write("create", resource, meta(obj).get("name") or "", lambda: (
            self._bind(obj, namespace, query or {}) if subresource else self._create(resource, obj, namespace)
        ))  # fmt: skip

    async def update(self, resource: Resource, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        obj = copy.deepcopy(obj)
        name = meta(obj)["name"]
        return await self._write("update", resource, name, lambda: self._update(resource, obj, namespace, subresource))

    async def patch(
        self, resource: Resource, name: str, namespace: str = "", body: Any = None, *, kind: str = "merge",
        subresource: str = "", timeout: float | None = None,
    ) -> Object:  # fmt: skip
        def change() -> Object:
            known = self._known(resource, name, namespace)
            merged = (
                apply_strategic_patch(_shape(resource), copy.deepcopy(known), body)
                if kind == "strategic"
                else apply_merge_patch(copy.deepcopy(known), body)
            )
            return self._update(resource, merged, namespace, subresource, patched=body)

        return await self._write("patch", resource, name, change)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace: int | None = None, uid: str = "",
        version: str = "", policy: str = "",
    ) -> Object:  # fmt: skip
        def change() -> Object:
            known = self._known(resource, name, namespace)
            if uid and meta(known)["uid"] != uid:
                raise ApiError(409, {"message": "uid differs", "reason": "Conflict"})
            if meta(known).get("finalizers") or (_runs(resource, known) and grace != 0):
                marked = {**known, "metadata": {**meta(known), "deletionTimestamp": now()}}
                return self._store(resource, marked)
            self.drop(resource, name, namespace)
            return {}

        return await self._write("delete", resource, name, change)

    # how it works

    async def _write(self, verb: str, resource: Resource, name: str, change: Callable[[], Object]) -> Object:
        await self._pause()
        if (gate := self.gates.get((verb, resource.plural, name))) is not None:
            await gate.wait()
        if (fault := self.fault(verb, resource, name)) is not None:
            raise fault
        answer = copy.deepcopy(change())
        self.writes += 1
        await self._pause()
        if (lost := self.lose(verb, resource, name)) is not None:
            raise lost
        return answer

    async def _pause(self) -> None:
        for _ in range(self.random.randint(0, 4) if self.random else 1):
            await asyncio.sleep(0)

    def _known(self, resource: Resource, name: str, namespace: str) -> Any:
        known = self.objects[resource.plural].get(join_key(namespace, name))
        if known is None:
            raise ApiError(404, {"message": f'{resource.full_name} "{name}" not found', "reason": "NotFound"})
        return known

    def _create(self, resource: Resource, obj: Object, namespace: str) -> Object:
        metadata: Object = {**meta(obj), **({"namespace": namespace} if namespace else {})}
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{self.version:05}")
        if join_key(namespace, metadata["name"]) in self.objects[resource.plural]:
            raise ApiError(409, {"message": "already exists", "reason": "AlreadyExists"})
        return self.put(resource, {**obj, "metadata": metadata})

    def _update(
        self, resource: Resource, obj: Object, namespace: str, subresource: str, patched: Object | None = None
    ) -> Object:
        known = self._known(resource, meta(obj)["name"], namespace)
        wanted = meta(patched if patched is not None else obj)
        for field in ("resourceVersion", "uid"):
            if wanted.get(field) and wanted[field] != meta(known)[field]:
                raise ApiError(409, {"message": f"{field} differs", "reason": "Conflict"})
        if subresource:
            self._check_status(resource, known, obj)
            notes = {"annotations": meta(obj)["annotations"]} if meta(obj).get("annotations") else {}
            obj = {**known, "metadata": {**meta(known), **notes}, "status": obj.get("status") or {}}
        else:
            obj = {**obj, "status": known.get("status") or {}}
        if meta(obj).get("deletionTimestamp") and not meta(obj).get("finalizers") and not _runs(resource, obj):
            self.drop(resource, meta(obj)["name"], namespace)
            return obj
        return self._store(resource, obj)

    def _check_status(self, resource: Resource, known: Object, obj: Object) -> None:
        """Allocations are never altered, only made and cleared; who is reserved for needs one."""
        if resource.plural != "resourceclaims":
            return
        old, new = ((each.get("status") or {}).get("allocation") for each in (known, obj))
        if old and new and old != new:
            raise ApiError(422, {"message": "status.allocation: Invalid value: field is immutable"})
        if not new and (obj.get("status") or {}).get("reservedFor"):
            raise ApiError(422, {"message": "status.reservedFor: Forbidden"})

    def _bind(self, binding: Object, namespace: str, query: Mapping[str, str]) -> Object:
        pod = self._known(PODS, meta(binding)["name"], namespace)
        for name in filter(None, query.get("reservedClaims", "").split(",")):
            if not is_reserved_for(self._known(RESOURCECLAIMS, name, namespace), meta(pod)["uid"]):
                raise ApiError(409, {"message": "claim is not reserved", "reason": "Conflict"})
        if (pod.get("spec") or {}).get("nodeName") or meta(pod)["uid"] != meta(binding)["uid"]:
            raise ApiError(409, {"message": "pod is already assigned", "reason": "Conflict"})
        status = {name: each for name, each in (pod.get("status") or {}).items() if name != "nominatedNodeName"}
        return self._store(
            PODS, {**pod, "spec": {**pod["spec"], "nodeName": binding["target"]["name"]}, "status": status}
        )

    def _store(self, resource: Resource, obj: Object) -> Object:
        known = self.objects[resource.plural].get(key_of(obj))
        self.version += 1
        stored = self.objects[resource.plural][key_of(obj)] = self._stamped(obj)
        self.log[resource.plural].append(("MODIFIED" if known else "ADDED", known, stored))
        return stored

    def _stamped(self, obj: Object) -> Object:
        return {**obj, "metadata": {**meta(obj), "resourceVersion": str(self.version)}}


class RestoredApi(MemoryApi):
    """Restored, right after the first creation was answered, from a backup that lacks it: no watch has shown it."""

    lost = False

    async def _write(self, verb: str, resource: Resource, name: str, change: Callable[[], Object]) -> Object:
        def undone() -> Object:
            before, log = dict(self.objects[resource.plural]), len(self.log[resource.plural])
            answer = change()
            if verb == "create" and not self.lost:
                self.lost = True
                self.objects[resource.plural] = before
                del self.log[resource.plural][log:]
            return answer

        return await super()._write(verb, resource, name, undone)


class Follower:
    """An informer that reads the log when it is told to."""

    def __init__(self, api: MemoryApi, resource: Resource, handler: ResourceEventHandler) -> None:
        self._api, self._resource, self._handler = api, resource, handler
        self._at = len(api.log[resource.plural])
        self.items: dict[str, Any] = {}
        for obj in list(api.objects[resource.plural].values()):
            self._take("ADDED", obj)

    @property
    def behind(self) -> int:
        return len(self._api.log[self._resource.plural]) - self._at

    def read(self, changes: int = 1) -> None:
        log = self._api.log[self._resource.plural]
        for _ in range(min(changes, self.behind)):
            kind, _, obj = log[self._at]
            self._at += 1
            self._take(kind, obj)

    def _take(self, kind: str, obj: Object) -> None:
        obj = copy.deepcopy(obj)
        if kind == "DELETED":
            self.items.pop(key_of(obj), None)
            self._handler.on_delete(obj)
            return
        old, self.items[key_of(obj)] = self.items.get(key_of(obj)), obj
        if old is None:
            self._handler.on_add(obj)
        else:
            self._handler.on_update(old, obj)


def _runs(resource: Resource, obj: Object) -> bool:
    """Return True for a pod on a node, which ends only when its node says so."""
    return resource is PODS and bool((obj.get("spec") or {}).get("nodeName"))


class Events(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def event(
        self, obj: Mapping[str, Any], type: str, reason: str, message: str, field_path: str = "", *,
        once: bool = False, host: str = "", limited: bool = False,
    ) -> None:  # fmt: skip
        self.told.append((key_of(obj), reason, message))

    async def run(self) -> None:
        await asyncio.Event().wait()


def conflict(*_: Any) -> ApiError:
    return ApiError(409, {"message": "the object has been modified", "reason": "Conflict"})


def away(*_: Any) -> ApiAway:
    return ApiAway("no answer")
