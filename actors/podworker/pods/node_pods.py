"""Publish this node's pods on the bus as the stream `node-pods`. Receives the manager's events before it does."""

from typing import Protocol

import msgspec

from protocols.bus import Bus, Op, StateSource, Stream
from protocols.kinds import views
from protocols.kinds.table import PODS
from protocols.lifecycle.pods.types import PodSpec, object_uid
from protocols.lifecycle.status.pod import overlay
from protocols.messages.podworker import NODE_PODS, NodePod

RING = 64
"""Retained events. Each holds a whole pod, so a longer journal would exceed a snapshot."""


class PodSourceHandler(Protocol):
    """The pod manager, or a handler in front of it."""

    def on_add(self, obj: views.Pod) -> None: ...
    def on_update(self, old: views.Pod, new: views.Pod) -> None: ...
    def on_delete(self, obj: views.Pod) -> None: ...

    def has_worker(self, uid: str) -> bool:
        """Return True until the pod of this uid is finished."""
        ...

    def republish(self, uid: str) -> None:
        """Send the whole status of a pod whose object in the API was replaced."""
        ...


class NodePods:
    """The stream's content; statuses are those that the pod workers publish, before the API has them."""

    def __init__(self, manager: PodSourceHandler) -> None:
        self._manager = manager
        self._objects: dict[str, views.Pod] = {}
        self._statuses: dict[str, views.PodStatus] = {}
        self._published: dict[str, NodePod] = {}
        self._stream: Stream | None = None

    def begin(self, bus: Bus) -> None:
        """Publish the stream, after the first pods were received."""
        for uid, obj in self._objects.items():
            self._published[uid] = self._view(uid, obj)
        self._stream = bus.own(NODE_PODS, StateSource(self._published), ring=RING)

    # events on their way to the manager

    def on_add(self, obj: views.Pod) -> None:
        self._manager.on_add(obj)
        self._show(object_uid(obj), obj)

    def on_update(self, old: views.Pod, new: views.Pod) -> None:
        self._manager.on_update(old, new)
        self._show(object_uid(new), new)

    def on_delete(self, obj: views.Pod) -> None:
        self._manager.on_delete(obj)
        uid = object_uid(obj)
        self._objects.pop(uid, None)
        self._statuses.pop(uid, None)
        if self._published.pop(uid, None) is not None and self._stream:
            self._stream.publish(Op.DELETE, uid, b"")

    def has_worker(self, uid: str) -> bool:
        return self._manager.has_worker(uid)

    def republish(self, uid: str) -> None:
        self._manager.republish(uid)

    # statuses

    def on_status(self, spec: PodSpec, status: views.PodStatus) -> None:
        """Show a status that is being sent to the API."""
        if spec.uid in self._objects:
            self._statuses[spec.uid] = status
            self._show(spec.uid, self._objects[spec.uid])

    def _show(self, uid: str, obj: views.Pod) -> None:
        self._objects[uid] = obj
        if self._stream is None:
            return
        view = self._view(uid, obj)
        if self._published.get(uid) != view:
            self._published[uid] = view
            self._stream.publish(Op.UPSERT, uid, view)

    def _view(self, uid: str, obj: views.Pod) -> NodePod:
        metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
        status = overlay(obj.get("status") or {}, self._statuses.get(uid) or {})
        return NodePod(
            uid=uid,
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            containers=tuple(str(item.get("name")) for item in spec.get("containers") or ()),
            pod=msgspec.json.encode({**PODS.type_meta, **obj, "status": status}),
        )
