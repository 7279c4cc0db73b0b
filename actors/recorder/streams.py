"""Follow streams of the bus into a recording: objects of the API, and what the node's actors publish.

Only resources of RECORDED are followed at all, so no Secret, ConfigMap, token, or certificate request is ever read;
secrets in others are left out before they are recorded.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from protocols.bus import Bus, Event, Op, Replica, StreamSink
from protocols.kinds.table import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICEPATCHES,
    RESOURCESLICES,
)
from protocols.kube.jsons import read_json_object
from protocols.kube.meta import CONTAINER_LISTS, LAST_APPLIED, Object, key_of, meta
from protocols.kube.objects import at
from protocols.messages import devices, objects, pleg
from protocols.messages.calls import HIDDEN
from protocols.messages.devices import DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from protocols.messages.objects import DELETED, STORED, ObjectEvent, stream_of
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from protocols.recording import sources
from protocols.recording.writer import RecordingWriter

STATES: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    (devices.OWNER, devices.DEVICES, ResourceInventory),
    (devices.OWNER, devices.HEALTH, DeviceHealth),
    (devices.OWNER, devices.ALLOCATIONS, PodAllocation),
    (devices.OWNER, devices.PLUGINS, PluginView),
    (devices.OWNER, devices.DRA_DRIVERS, DraDriver),
    (devices.OWNER, devices.DRA_HEALTH, DeviceHealth),
    (pleg.OWNER, pleg.PLEG_STATE, PlegState),
)


RECORDED = (PODS, NODES, RESOURCECLAIMS, RESOURCESLICES, DEVICECLASSES, RESOURCESLICEPATCHES, DEVICETAINTRULES)


def now_ms() -> int:
    """Return milliseconds since the epoch, as recordings count time."""
    return time.time_ns() // 1_000_000


def follow_objects(bus: Bus, writer: RecordingWriter) -> None:
    """Follow the resources of RECORDED, and events, for as long as the bus is open."""
    for resource in RECORDED:
        stream = stream_of(resource.group, resource.plural)
        bus.follow(owner=objects.OWNER, stream=stream, sink=ObjectsSink(writer, stream), type=ObjectEvent)
    stream = stream_of(EVENTS.group, EVENTS.plural)
    bus.follow(owner=objects.OWNER, stream=stream, sink=Events(writer), type=ObjectEvent)


def follow_node(bus: Bus, writer: RecordingWriter, prefix: str) -> None:
    """Follow what the actors of one node publish; `prefix` names a further node."""
    for owner, stream, type in STATES:
        replica: Replica[Any] = Replica(_change(writer, f"{prefix}{owner}/{stream}"))
        bus.follow(owner=owner, stream=stream, sink=replica, type=type)
    bus.follow(owner=pleg.OWNER, stream=pleg.POD_LIFECYCLE, sink=LifecycleSink(writer, prefix), type=PodLifecycleEvent)


def _change(writer: RecordingWriter, source: str) -> Callable[[Op, str, Any, Any], None]:
    def change(op: Op, key: str, new: Any, old: Any) -> None:
        if new is None:
            writer.remove(source, key, now_ms())
        else:
            writer.set(source, key, msgspec.to_builtins(new), now_ms())

    return change


class ObjectsSink(StreamSink[ObjectEvent]):
    """The objects of one resource, as state."""

    def __init__(self, writer: RecordingWriter, source: str) -> None:
        self._writer, self._source = writer, source
        self._keys: set[str] = set()

    def on_snapshot(self, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
        fresh = {key: event for key, event in items if event.type == STORED}
        for key in self._keys - fresh.keys():
            self._remove(key)
        for key, event in fresh.items():
            self._set(key, event.object)

    def on_event(self, event: Event[ObjectEvent]) -> None:
        if event.value is None or event.key == objects.DIGEST_KEY:
            return
        if event.value.type == DELETED:
            self._remove(event.key)
        else:
            self._set(event.key, event.value.object)

    def _set(self, key: str, raw: bytes) -> None:
        self._keys.add(key)
        self._writer.set(self._source, key, redacted(read_json_object(raw)), now_ms())

    def _remove(self, key: str) -> None:
        self._keys.discard(key)
        self._writer.remove(self._source, key, now_ms())


class Events(StreamSink[ObjectEvent]):
    """Events of the API: each version of one is an entry, and its expiry is none."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer

    def on_snapshot(self, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
        for _, event in items:
            if event.type == STORED:
                self._add(event.object)

    def on_event(self, event: Event[ObjectEvent]) -> None:
        if event.value is not None and event.value.type != DELETED and event.key != objects.DIGEST_KEY:
            self._add(event.value.object)

    def _add(self, raw: bytes) -> None:
        obj = redacted(read_json_object(raw))
        self._writer.happened(sources.EVENTS, key_of(obj), obj, now_ms())


class LifecycleSink(StreamSink[PodLifecycleEvent]):
    """Pod lifecycle events of pleg."""

    def __init__(self, writer: RecordingWriter, prefix: str) -> None:
        self._writer, self._source = writer, prefix + sources.LIFECYCLE

    def on_snapshot(self, items: list[tuple[str, PodLifecycleEvent]], mark: int) -> None:
        """An edge stream retains nothing."""

    def on_event(self, event: Event[PodLifecycleEvent]) -> None:
        if event.value is not None:
            self._writer.happened(self._source, event.key, msgspec.to_builtins(event.value), now_ms())


def redacted(obj: Object) -> Object:
    """Return the object, changed in place: without values of variables and headers and copies of the manifest."""
    metadata = meta(obj)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = HIDDEN
    if not metadata.get("finalizers"):
        metadata.pop("managedFields", None)
    for variable in _valued(obj.get("spec")):
        if variable.get("value"):
            variable["value"] = HIDDEN
    return obj


_REQUESTS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)
"""Places of a container's HTTP requests, whose headers may have a password."""


def _valued(spec: Any) -> Iterator[dict[str, Any]]:
    if isinstance(spec, dict):
        for kind in CONTAINER_LISTS:
            for container in _maps(spec.get(kind)):
                yield from _maps(container.get("env"))
                for place in _REQUESTS:
                    yield from _maps(at(container, *place, "httpGet", "httpHeaders"))


def _maps(value: Any) -> Iterable[dict[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
