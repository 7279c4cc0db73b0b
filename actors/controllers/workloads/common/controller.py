"""The shell of every controller of workloads: a queue of its objects, claims of dependents, and writes.

Writes are merge patches that carry the resourceVersion that was decided on; a conflict leads to another pass.
"""

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actors.controllers.workloads.common.claims import adoption, claim, release, selector_of
from actors.controllers.workloads.common.index import OwnerIndex
from actors.controllers.workloads.common.own_writes import OwnWrites
from actors.controllers.workloads.common.pod_control import OVERDUE_S, PodControl
from actors.controllers.workloads.common.pods import ControllerOwner, PodView, owner_of, pod_view
from protocols.kinds.table import BY_KIND, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, key_of, labels_of, meta, name_of, namespace_of, terminating, uid_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import ResourceEventHandler
from protocols.kubeclient.workqueue import Key, WorkQueue

CONFLICT_S = 0.2
"""Pause after a conflict, in which the informer catches up."""
UNREADABLE_S = 60.0
"""Pause after an object that could not be read."""
LOST = (404, 409)
WORKERS = 4
POINTERS = frozenset(("ready", "terminating", "terminatingReplicas"))
"""Counts of a status that upstream writes even if they are 0."""


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of a controller."""

    client: ApiClient
    recorder: EventRecorder
    log: logging.Logger
    clock: Callable[[], float]
    """Seconds since the epoch."""


class WorkloadController(ResourceEventHandler):
    """Reconcile the objects of one kind. An informer's handler for them."""

    kind = ""
    resource: Resource

    def __init__(self, tools: Tools, pods: OwnerIndex) -> None:
        self._tools, self._pods = tools, pods
        self._control = PodControl(tools.client, tools.recorder)
        self.queue = WorkQueue(self._step, tools.log, WORKERS)
        self.items: Mapping[str, Object] = {}
        """The informer's store, set when the informer exists."""
        self.passes = 0
        self._own = OwnWrites(tools.client, self.resource)
        self._waits: dict[str, float] = {}
        """Seconds until the next pass, by key, while a pass is made."""

    async def sync(self, obj: Object) -> None:
        """Make one pass. Raises ApiError and ApiAway."""
        raise NotImplementedError

    async def run(self) -> None:
        await self.queue.run()

    # what changed

    def on_add(self, obj: Object) -> None:
        self.enqueue(key_of(obj))

    def on_delete(self, obj: Object) -> None:
        self._control.forget(uid_of(obj))
        self._own.forget(uid_of(obj))
        self.queue.cancel_timer((self.kind, key_of(obj)))

    def pod_changed(self, owner: ControllerOwner, pod: Object) -> None:
        self._control.observe(pod, owner.uid)
        self.enqueue_owner(owner, pod)

    def pod_gone(self, owner: ControllerOwner, pod: Object) -> None:
        self._control.observe_gone(pod, owner.uid)
        self.enqueue_owner(owner, pod)

    def orphan_changed(self, obj: Object) -> None:
        """Enqueue the workloads that may adopt an object without a controller."""
        for key, owner in self.items.items():
            selector = selector_of(owner) if namespace_of(owner) == namespace_of(obj) else None
            if selector is not None and selector.matches(labels_of(obj)):
                self.enqueue(key)

    def enqueue(self, key: str) -> None:
        self.queue.put((self.kind, key))

    def enqueue_owner(self, owner: ControllerOwner, dependent: Object) -> bool:
        key = f"{namespace_of(dependent)}/{owner.name}"
        known = self.items.get(key)
        if known is None or uid_of(known) != owner.uid:
            return False
        self.enqueue(key)
        return True

    # what to do

    async def _step(self, key: Key) -> None:
        obj = self.items.get(key[1])
        if obj is None or key[0] != self.kind:
            return
        self.passes += 1
        try:
            if await self._own.shown(uid_of(obj), self.items):
                await self.sync(obj)
            else:
                self.again(obj, OVERDUE_S)
        except ApiError as error:
            if error.code not in LOST:
                raise
            self.again(obj, CONFLICT_S)
        except ApiAway:
            raise
        except Exception as error:  # an object of a wrong shape must not keep others from being reconciled
            frame = traceback.extract_tb(error.__traceback__)[-1]
            details = (self.kind, key[1], type(error).__name__, error, frame.filename, frame.lineno)
            self._tools.log.error("object is left out kind=%s key=%s error=%s: %s at %s:%d", *details)
            self.again(obj, UNREADABLE_S)
        finally:
            if (seconds := self._waits.pop(key[1], None)) is not None:
                self.queue.put_later(key, seconds)

    def again(self, obj: Object, seconds: float | None) -> None:
        """Make another pass after so many seconds; None = only when something changes."""
        if seconds is not None:
            key = key_of(obj)
            self._waits[key] = min(seconds, self._waits.get(key, seconds))

    async def settled(self, obj: Object) -> bool:
        """Return True if the informer shows all pods that were created and deleted before.

        Ask before `claim_pods`: pods that are shown after that are not among those that it returns.
        """
        if await self._control.settled(obj, self._pods.items.get):
            return True
        self.again(obj, OVERDUE_S)
        return False

    async def claim_pods(self, obj: Object) -> list[PodView]:
        """Return its pods, after adopting and releasing."""
        pods = await self.claim_from(obj, self._pods, lambda pod: self.adopts(obj, pod))
        return [pod_view(pod) for pod in pods]

    async def claim_from(
        self, obj: Object, index: OwnerIndex, adoptable: Callable[[Object], bool] = lambda obj: True
    ) -> list[Object]:
        orphans = (orphan for orphan in index.orphans(namespace_of(obj)) if adoptable(orphan))
        claims = claim(obj, [*index.owned(uid_of(obj)), *orphans], lambda each: each)
        for dependent in claims.release:
            await self._reown(dependent, release(obj, dependent))
        if claims.adopt and await self._lives(obj):
            for dependent in claims.adopt:
                if await self._reown(dependent, self.adoption(obj, dependent)):
                    claims.owned.append(dependent)
        return claims.owned

    def adopts(self, owner: Object, pod: Object) -> bool:
        """Return True if the owner takes a pod without a controller that its selector matches."""
        return True

    def adoption(self, owner: Object, obj: Object) -> Object:
        """Return the patch of an adopted object."""
        return adoption(owner, obj)

    async def _reown(self, obj: Object, patch: Object) -> bool:
        """Return False if the object is gone or another's. A conflict ends the pass, which would replace the object."""
        resource = BY_KIND[(str(obj["apiVersion"]), str(obj["kind"]))]
        try:
            await self._tools.client.patch(resource, name_of(obj), namespace_of(obj), patch)
        except ApiError as error:
            if error.code not in (404, 422):
                raise
            return False
        return True

    async def _lives(self, obj: Object) -> bool:
        """Read the owner again: one that is being deleted must not adopt."""
        live = await self._tools.client.get(self.resource, name_of(obj), namespace_of(obj))
        return uid_of(live) == uid_of(obj) and not terminating(live)

    async def write_status(self, obj: Object, status: Object, annotations: dict[str, str] | None = None) -> Object:
        """Write the fields of the status that changed, and return the object. None removes a field.

        Annotations written with a status do not count as a new generation.
        """
        known = obj.get("status") or {}
        changed = {name: value for name, value in status.items() if _differs(name, known, value)}
        if not changed and not annotations:
            return obj
        written = {name: None if value in ({}, [], "") else value for name, value in changed.items()}
        metadata = guard(obj) | ({"annotations": annotations} if annotations else {})
        body = {"metadata": metadata, "status": written}
        client = self._tools.client
        write = client.patch(self.resource, name_of(obj), namespace_of(obj), body, subresource="status")
        return await self._own.send(uid_of(obj), key_of(obj), write)


def adoptable_anew(old: Object | None, new: Object) -> bool:
    """Return True if an object without a controller may be adopted by another workload than before."""
    return old is None or labels_of(old) != labels_of(new) or owner_of(old) is not None


def guard(obj: Object) -> Object:
    """Return the metadata of a patch that fails if the object has changed."""
    metadata = meta(obj)
    return {field: metadata[field] for field in ("uid", "resourceVersion")}


def _differs(name: str, known: Object, value: Any) -> bool:
    if name in POINTERS and name not in known:
        return True
    return bool(_plain(known.get(name)) != _plain(value))


def _plain(value: Any) -> Any:
    """Return the value with nothing where it is empty or zero."""
    if isinstance(value, dict):
        value = {name: plain for name, part in value.items() if (plain := _plain(part)) is not None}
    return value or None
