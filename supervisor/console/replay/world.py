"""The world of the console as it was at one time of a recording.

Recorded metrics, modes and latencies that screens plot are read when a recording is opened, and shown up to each time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from protocols.kinds.table import PODS, RESOURCESLICES
from protocols.messages import devices, pleg
from protocols.messages.devices import DeviceHealth
from protocols.messages.objects import stream_of
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from protocols.recording import sources
from protocols.recording.delta import FIELDS, SET
from protocols.recording.frames import RecordedChange, convert
from protocols.recording.reader import Recording, State, apply_change
from protocols.recording.samples import SERVER
from supervisor.console.feed.api import keep_slice
from supervisor.console.feed.streams import STREAMS
from supervisor.console.model.history import KEPT_S
from supervisor.console.model.metrics import Page
from supervisor.console.model.plane import ActorUsage
from supervisor.console.model.pods import pod_of
from supervisor.console.model.world import World
from supervisor.report.status import merge
from supervisor.why.gather.replay import supervisors_of

KEPT_MS = KEPT_S * 1_000
MOST = 20_000
"""Measurements that are retained, the newest: some seven hours of one node. Earlier times have no plots."""
MOST_STATUSES = 100_000
MODE = f"{pleg.OWNER}/{pleg.PLEG_STATE}"
_PODS = stream_of(PODS.group, PODS.plural)


class Recorded(msgspec.Struct, frozen=True):
    """A value of sources.METRICS."""

    at_ms: int
    samples: dict[str, float]


class Measured(msgspec.Struct, frozen=True):
    """The samples of one process at one time; `source` has the prefix of its node."""

    source: str
    instance: str
    recorded: Recorded


class History:
    """Metrics and PLEG modes of all nodes, and statuses of pods, in the order of their times."""

    def __init__(self) -> None:
        self.measured: deque[Measured] = deque(maxlen=MOST)
        self.modes: deque[tuple[int, str, PlegState]] = deque(maxlen=MOST)
        """Time, source with the prefix of the node, state."""
        self.statuses: deque[tuple[int, str]] = deque(maxlen=MOST_STATUSES)
        """Times and uids of pods whose status changed."""
        self._state: State = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._uids: dict[str, str] = {}

    def add(self, change: RecordedChange) -> None:
        """Append a change. Raises RecordingInvalid."""
        if change.source == _PODS:
            self._add_pod(change)
        elif change.source.endswith((sources.METRICS, MODE)):
            apply_change(self._state, change)
            value = self._state[change.source].get(change.key)
            if value is not None and change.source.endswith(MODE):
                self.modes.append((change.at_ms, change.source, convert(value, PlegState)))
            elif value is not None:
                self._add_metrics(change, convert(value, Recorded))

    def _add_metrics(self, change: RecordedChange, recorded: Recorded) -> None:
        if self._newest.get((change.source, change.key)) != recorded.at_ms:  # else a key frame repeats it
            self._newest[change.source, change.key] = recorded.at_ms
            self.measured.append(Measured(change.source, change.key, recorded))

    def _add_pod(self, change: RecordedChange) -> None:
        match change.delta:
            case [kind, {"metadata": {"uid": str(uid)}}] if kind == SET:
                self._uids[change.key] = uid
            case [kind, {"status": _}] if kind == FIELDS and change.key in self._uids:
                self.statuses.append((change.at_ms, self._uids[change.key]))
            case [_]:
                self._uids.pop(change.key, None)


Step = tuple[int, Callable[[float], None]]
"""Time in ms, and what shows something of that time, called with it in s."""


def steps(world: World, recording: Recording, history: History, prefix: str, at_ms: int) -> Iterator[Step]:
    """Yield what one node's screens show of the 15 minutes before a time, and its modes. Raises RecordingInvalid."""
    since = at_ms - KEPT_MS
    for measured in history.measured:
        if measured.source == prefix + sources.METRICS and since < measured.recorded.at_ms <= at_ms:
            yield (
                measured.recorded.at_ms,
                partial(world.measured, measured.instance, Page.of(measured.recorded.samples)),
            )
    for at, source, mode in history.modes:
        if source == prefix + MODE and at <= at_ms:
            yield at, partial(world.pleg.switched, mode)
    for entry, _ in recording.entries((prefix + sources.LIFECYCLE,), at_ms, since):
        yield entry.at_ms, partial(world.pleg.happened, convert(entry.value, PodLifecycleEvent))
    for at, uid in history.statuses:
        if since < at <= at_ms:
            yield at, partial(world.pleg.status_changed, uid)


class Player:
    """Applies steps in the order of their times; steps of one time in the given order."""

    def __init__(self, found: Iterable[Step]) -> None:
        self._waiting = deque(sorted(found, key=lambda step: step[0]))

    def until(self, at_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= at_ms:
            at, show = self._waiting.popleft()
            show(at / 1_000)


BEFORE_MS = 60_000
"""The part before the shown time that is played for positions of streams, health and deaths."""
STEP_MS = 1_000
HEALTH = (f"{devices.OWNER}/{devices.HEALTH}", f"{devices.OWNER}/{devices.DRA_HEALTH}")


def world_at(recording: Recording, at_ms: int, history: History, node: str = "") -> World:
    """Return the world of the first node, or of a further one. Raises RecordingInvalid."""
    world, prefix = World(lambda: at_ms / 1_000), f"{node}/" if node else ""
    began = max(recording.begin_ms, at_ms - BEFORE_MS)
    state, shown = recording.state(began), began
    earlier = Player(steps(world, recording, history, prefix, at_ms))
    _show_plane(world, state, began, prefix)
    earlier.until(began)
    for change in recording.changes(began, at_ms):
        apply_change(state, change)
        if change is None:
            continue
        _note_health(world, change, state, prefix)
        if change.at_ms - shown >= STEP_MS:
            shown = change.at_ms
            _show_plane(world, state, shown, prefix)
            earlier.until(shown)
    _show_plane(world, state, at_ms, prefix)
    earlier.until(at_ms)
    world.pleg.synced = True
    _show_watches(world)
    _show_objects(world, state, prefix)
    return world


def _show_plane(world: World, state: State, at_ms: int, prefix: str) -> None:
    statuses = supervisors_of(state, prefix, at_ms)
    if not statuses:
        world.house.lost("the recording has no status at this time")
        return
    world.house.update(merge(statuses), at_ms / 1_000)
    world.watch.moved(world.house, at_ms / 1_000)
    usage = {name: row for name, row in state.get(prefix + sources.USAGE, {}).items() if isinstance(row, list)}
    world.house.measured(
        {name: ActorUsage(*convert(row, tuple[float, float, bool])) for name, row in usage.items()}, at_ms / 1_000
    )


def _show_watches(world: World) -> None:
    actors = world.house.actors.values()
    world.watch.forget_servers({actor.name for actor in actors if actor.name.startswith(SERVER) and actor.serving})
    world.house.notes = world.watch.notes(world.house)


def _note_health(world: World, change: RecordedChange, state: State, prefix: str) -> None:
    known = change.source.removeprefix(prefix) in HEALTH
    value = state.get(change.source, {}).get(change.key) if known else None
    if value is not None:
        world.devices.reported(convert(value, DeviceHealth), change.at_ms * 1_000_000)


def _show_objects(world: World, state: State, prefix: str) -> None:
    for field, stream, kind in STREAMS:
        values = state.get(f"{prefix}{devices.OWNER}/{stream}", {})
        setattr(world.devices, field, {key: convert(value, kind) for key, value in values.items()})
    for key, obj in _objects(state, stream_of(RESOURCESLICES.group, RESOURCESLICES.plural)).items():
        world.devices.slices[key] = keep_slice(obj)["row"]
    world.devices.changed()
    for obj in _objects(state, stream_of(PODS.group, PODS.plural)).values():
        world.pods.put(pod_of(obj))
    world.pods.synced = True


def _objects(state: State, source: str) -> Mapping[str, dict[str, Any]]:
    objects = state.get(source, {})
    return {key: obj for key, obj in objects.items() if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict)}


def overview(recording: Recording) -> tuple[list[int], History]:
    """Return the times at which a process was restarted or a device became Unhealthy, and what screens draw.

    Both are those of all nodes. Raises RecordingInvalid.
    """
    times, history = list[int](), History()
    for change in recording.changes(0, recording.end_ms):
        if change is not None:
            history.add(change)
            if _is_fault(change):
                times.append(change.at_ms)
    return times, history


def _is_fault(change: RecordedChange) -> bool:
    match change.delta:
        case [2, dict() as fields]:  # a key frame sets whole values, which is no change
            restarted = change.source.endswith(sources.ACTORS) and "restarts" in fields
            return restarted or (change.source.endswith(HEALTH) and fields.get("health") == [1, devices.UNHEALTHY])
    return False
