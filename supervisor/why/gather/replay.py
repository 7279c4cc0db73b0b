"""Evidence of a recording, as it was at one time."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from protocols.dra.gates import Gates, gates_of
from protocols.kinds import views
from protocols.kinds.table import EVENTS, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, join_key, key_of, namespace_of, uid_of
from protocols.messages import devices as messages
from protocols.messages.calls import CallRecord
from protocols.messages.devices import DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from protocols.messages.objects import stream_of
from protocols.messages.supervisor import PlaneStatus
from protocols.recording import sources
from protocols.recording.frames import convert
from protocols.recording.reader import Recording, State
from supervisor.base.errors import NotRunning
from supervisor.client.devices import rows_of
from supervisor.client.drivers import drivers_view_of
from supervisor.report.status import merge
from supervisor.trace.collect import PodTrace
from supervisor.trace.recorded import trace_in
from supervisor.why.gather.sources import LOG_BYTES, LOG_LINES, DeviceManager, Sources

T = TypeVar("T")


class ReplaySources:
    """A recorded plane at a time, in ms since the epoch."""

    def __init__(self, recording: Recording, at_ms: int, node: str = "", state: State | None = None) -> None:
        self._recording, self._at_ms = recording, at_ms
        self._state = recording.state(at_ms) if state is None else state
        self._node = node
        self._prefix = f"{node}/" if node else ""
        self.client = RecordedApi(recording, self._state, at_ms)

    @property
    def gates(self) -> Gates:
        return gates_of(lambda name: self._recording.header.feature_gates.get(name, True))

    @property
    def node_name(self) -> str:
        return self._node or self._recording.header.node

    def now(self) -> float:
        return self._at_ms / 1_000

    def other_nodes(self) -> list[str]:
        suffix = f"/{sources.SUPERVISORS}"
        further = sorted(source.removesuffix(suffix) for source in self._state if source.endswith(suffix))
        return [name for name in (self._recording.header.node, *further) if name != self.node_name]

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[Sources]:
        known = name in self.other_nodes()
        prefix = "" if name == self._recording.header.node else name
        yield ReplaySources(self._recording, self._at_ms, prefix, self._state) if known else self

    async def device_manager(self) -> DeviceManager:
        inventory = self._stream(messages.DEVICES, ResourceInventory)
        health, dra_health = (self._stream(stream, DeviceHealth) for stream in (messages.HEALTH, messages.DRA_HEALTH))
        pods, drivers = self._stream(messages.ALLOCATIONS, PodAllocation), self._stream(messages.DRA_DRIVERS, DraDriver)
        return DeviceManager(
            calls=self._calls(),
            inventory=inventory,
            plugins=tuple(self._stream(messages.PLUGINS, PluginView).values()),
            health={**health, **dra_health},
            rows=tuple(rows_of(inventory, health, pods)),
            drivers=drivers_view_of(drivers, dra_health, pods),
            socket_since=_number(self._values(sources.REGISTRATION).get("socket")),
        )

    async def status(self) -> PlaneStatus:
        statuses = supervisors_of(self._state, self._prefix, self._at_ms)
        if not statuses:
            raise NotRunning("the recording has no status of supervisors at this time; see --at")
        return merge(statuses)

    async def trace(self, namespace: str, name: str) -> PodTrace:
        return await trace_in(self._recording, self._at_ms, namespace, name)

    async def log(self, pod: views.Pod, container: str, previous: bool) -> str:
        """Return the end of the newest run's log: `previous` selects it for a container that waits for its next one."""
        lines = self._log_of(pod, container)
        if lines is None:
            raise ApiError(404, {"message": f"the recording has no log of {container!r}"})
        text = "".join(f"{line}\n" for line in lines[-LOG_LINES:])
        return text.encode(errors="replace")[:LOG_BYTES].decode(errors="replace")

    def _log_of(self, pod: views.Pod, container: str) -> list[str] | None:
        key = f"{key_of(pod)}/{uid_of(pod)}/{container}"
        logs = (items[key] for source, items in self._state.items() if source.endswith(sources.LOGS) and key in items)
        lines = next(logs, None)
        return [str(line) for line in lines] if isinstance(lines, list) else None

    def _calls(self) -> tuple[CallRecord, ...]:
        ended = self._recording.entries((self._prefix + sources.CALLS,), self._at_ms)
        records = [convert(entry.value, CallRecord) for entry, _ in ended]
        records += [convert(value, CallRecord) for value in self._values(sources.PENDING).values()]
        return tuple(sorted(records, key=lambda record: record.began_ns))

    def _stream(self, stream: str, kind: type[T]) -> dict[str, T]:
        values = self._values(f"{messages.OWNER}/{stream}")
        return {key: convert(value, kind) for key, value in values.items()}

    def _values(self, source: str) -> dict[str, Any]:
        return self._state.get(self._prefix + source, {})


def supervisors_of(state: State, prefix: str, at_ms: int) -> list[PlaneStatus]:
    """Return what the supervisors of a node reported, with uptimes at this time. Raises RecordingInvalid."""
    rows = state.get(prefix + sources.ACTORS, {})
    statuses = []
    for name, plane in sorted(state.get(prefix + sources.SUPERVISORS, {}).items()):
        mine = [_aged(row, at_ms) for key, row in rows.items() if key.startswith(f"{name} ")]
        statuses.append(convert({**_aged(plane, at_ms), "actors": mine}, PlaneStatus))
    return statuses


def _aged(row: Any, at_ms: int) -> dict[str, Any]:
    values = dict(row) if isinstance(row, dict) else {}
    return {**values, "uptime_s": max(0.0, (at_ms - _number(values.get("began_ms"))) / 1_000)}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


class RecordedApi:
    """The API at one time."""

    def __init__(self, recording: Recording, state: State, at_ms: int) -> None:
        self._recording, self._state, self._at_ms = recording, state, at_ms

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        obj = self._objects(resource).get(join_key(namespace if resource.namespaced else "", name))
        if obj is None:
            raise ApiError(404, {"message": f"{resource.full_name} {name!r} is not in the recording"})
        return obj

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        query: Mapping[str, str] | None = None,
        field_selector: str = "",
    ) -> Object:
        """Return the objects by their keys; of `query`, the limit counts. Selectors have `=` alone."""
        wanted = [(path, value) for path, _, value in _parts(field_selector)]
        objects = self._events(wanted) if resource is EVENTS else self._objects(resource)
        matching = [
            obj
            for _, obj in sorted(objects.items())
            if (not namespace or namespace_of(obj) == namespace) and all(_field(obj, *field) for field in wanted)
        ]
        return {"items": matching[: int((query or {}).get("limit", len(matching)))]}

    def _objects(self, resource: Resource) -> Mapping[str, Object]:
        return self._state.get(stream_of(resource.group, resource.plural), {})

    def _events(self, wanted: Sequence[tuple[str, str]]) -> Mapping[str, Object]:
        """Return the newest version of each event, of frames that name what is wanted."""
        holds = wanted[-1][1].encode() if wanted else b""
        entries = self._recording.entries((sources.EVENTS,), self._at_ms, holds=holds)
        return {entry.key: entry.value for entry, _ in entries if isinstance(entry.value, dict)}


def _parts(selector: str) -> Iterator[tuple[str, str, str]]:
    return (part.partition("=") for part in selector.split(",") if part)


def _field(obj: Object, path: str, value: str) -> bool:
    current: Any = obj
    for name in path.split("."):
        current = current.get(name) if isinstance(current, dict) else None
    return bool(current == value)
