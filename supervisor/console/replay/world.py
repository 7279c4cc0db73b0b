"""The world of the console as it was at one time of a recording."""

from collections.abc import Mapping
from typing import Any, TypeVar

from protocols.kube.resources import PODS, RESOURCESLICES
from protocols.messages import devices, pleg
from protocols.messages.devices import DeviceHealth
from protocols.messages.objects import stream_of
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from protocols.recording import sources
from protocols.recording.frames import Change
from protocols.recording.reader import Recording, State, apply_change
from supervisor.console.feed.api import keep_slice
from supervisor.console.feed.streams import STREAMS
from supervisor.console.model.plane import Usage
from supervisor.console.model.pods import pod_of
from supervisor.console.model.world import World
from supervisor.report.status import merge
from supervisor.why.gather.replay import convert, supervisors_of

T = TypeVar("T")
BEFORE_MS = 60_000
"""The part before the shown time that is played for rates, histories and deaths."""
EVENTS_MS = 900_000
"""The part of which lifecycle events are shown."""
STEP_MS = 1_000
HEALTH = frozenset(f"{devices.OWNER}/{stream}" for stream in (devices.HEALTH, devices.DRA_HEALTH))


def world_at(recording: Recording, at_ms: int) -> World:
    """Raises RecordingInvalid."""
    world = World(lambda: at_ms / 1_000)
    began = max(recording.begin_ms, at_ms - BEFORE_MS)
    state, shown = recording.state(began), began
    _show_plane(world, state, began)
    for change in recording.changes(began, at_ms):
        apply_change(state, change)
        if change is None:
            continue
        _note_health(world, change, state)
        if change.at_ms - shown >= STEP_MS:
            shown = change.at_ms
            _show_plane(world, state, shown)
    _show_plane(world, state, at_ms)
    _show_objects(world, state)
    _show_pleg(world, recording, state, at_ms)
    return world


def _show_plane(world: World, state: State, at_ms: int) -> None:
    found = supervisors_of(state, "", at_ms)
    if not found:
        world.house.lost("the recording has no status at this time")
        return
    world.house.update(merge(found), at_ms / 1_000)
    world.watch.moved(world.house, at_ms / 1_000)
    usage = {name: row for name, row in state.get(sources.USAGE, {}).items() if isinstance(row, list)}
    world.house.measured(
        {name: Usage(*convert(row, tuple[float, float, bool])) for name, row in usage.items()}, at_ms / 1_000
    )


def _note_health(world: World, change: Change, state: State) -> None:
    value = state.get(change.source, {}).get(change.key) if change.source in HEALTH else None
    if value is not None:
        world.devices.reported(convert(value, DeviceHealth), change.at_ms * 1_000_000)


def _show_objects(world: World, state: State) -> None:
    for field, stream, kind in STREAMS:
        values = state.get(f"{devices.OWNER}/{stream}", {})
        setattr(world.devices, field, {key: convert(value, kind) for key, value in values.items()})
    for key, obj in _objects(state, stream_of(RESOURCESLICES.group, RESOURCESLICES.plural)).items():
        world.devices.slices[key] = keep_slice(obj)["row"]
    world.devices.changed()
    for obj in _objects(state, stream_of(PODS.group, PODS.plural)).values():
        world.pods.put(pod_of(obj))
    world.pods.synced = True


def _objects(state: State, source: str) -> Mapping[str, dict[str, Any]]:
    found = state.get(source, {})
    return {key: obj for key, obj in found.items() if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict)}


def _show_pleg(world: World, recording: Recording, state: State, at_ms: int) -> None:
    for entry, _ in recording.entries((sources.LIFECYCLE,), at_ms, at_ms - EVENTS_MS):
        world.pleg.happened(convert(entry.value, PodLifecycleEvent), entry.at_ms / 1_000)
    for value in state.get(f"{pleg.OWNER}/{pleg.PLEG_STATE}", {}).values():
        world.pleg.switched(convert(value, PlegState), at_ms / 1_000)
    world.pleg.synced = True


def faults(recording: Recording) -> list[int]:
    """Return the times at which a process was restarted, or a device became Unhealthy."""
    return [change.at_ms for change in recording.changes(0, recording.end_ms) if change and _is_fault(change)]


def _is_fault(change: Change) -> bool:
    match change.delta:
        case [2, dict() as fields]:  # a key frame sets whole values, which is no change
            restarted = change.source.endswith(sources.ACTORS) and "restarts" in fields
            return restarted or (change.source in HEALTH and fields.get("health") == [1, devices.UNHEALTHY])
    return False
