"""The world of the console as it was at one time of a recording."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from protocols.kube.resources import PODS, RESOURCESLICES
from protocols.messages import devices, pleg
from protocols.messages.devices import DeviceHealth
from protocols.messages.objects import stream_of
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from protocols.recording import sources
from protocols.recording.frames import Change
from protocols.recording.reader import Recording, State, apply_change
from protocols.recording.samples import SERVER
from supervisor.console.feed.api import keep_slice
from supervisor.console.feed.streams import STREAMS
from supervisor.console.model.plane import Usage
from supervisor.console.model.pods import pod_of
from supervisor.console.model.world import World
from supervisor.console.replay.measured import Measured, Measurements, Player
from supervisor.report.status import merge
from supervisor.why.gather.replay import convert, supervisors_of

T = TypeVar("T")
BEFORE_MS = 60_000
"""The part before the shown time that is played for positions of streams, health and deaths."""
EVENTS_MS = 900_000
"""The part of which lifecycle events are shown."""
STEP_MS = 1_000
HEALTH = (f"{devices.OWNER}/{devices.HEALTH}", f"{devices.OWNER}/{devices.DRA_HEALTH}")


def world_at(recording: Recording, at_ms: int, node: str = "", measured: Iterable[Measured] = ()) -> World:
    """Return the world of the first node, or of a further one. Raises RecordingInvalid."""
    world, prefix = World(lambda: at_ms / 1_000), f"{node}/" if node else ""
    began = max(recording.begin_ms, at_ms - BEFORE_MS)
    state, shown = recording.state(began), began
    metrics = Player(world, prefix, measured, at_ms)
    _show_plane(world, state, began, prefix)
    metrics.until(began)
    for change in recording.changes(began, at_ms):
        apply_change(state, change)
        if change is None:
            continue
        _note_health(world, change, state, prefix)
        if change.at_ms - shown >= STEP_MS:
            shown = change.at_ms
            _show_plane(world, state, shown, prefix)
            metrics.until(shown)
    _show_plane(world, state, at_ms, prefix)
    metrics.until(at_ms)
    _show_watches(world)
    _show_objects(world, state, prefix)
    _show_pleg(world, recording, (state, at_ms), prefix)
    return world


def _show_plane(world: World, state: State, at_ms: int, prefix: str) -> None:
    found = supervisors_of(state, prefix, at_ms)
    if not found:
        world.house.lost("the recording has no status at this time")
        return
    world.house.update(merge(found), at_ms / 1_000)
    world.watch.moved(world.house, at_ms / 1_000)
    usage = {name: row for name, row in state.get(prefix + sources.USAGE, {}).items() if isinstance(row, list)}
    world.house.measured(
        {name: Usage(*convert(row, tuple[float, float, bool])) for name, row in usage.items()}, at_ms / 1_000
    )


def _show_watches(world: World) -> None:
    actors = world.house.actors.values()
    world.watch.forget_servers({each.name for each in actors if each.name.startswith(SERVER) and each.serving})
    world.house.notes = world.watch.notes(world.house)


def _note_health(world: World, change: Change, state: State, prefix: str) -> None:
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
    found = state.get(source, {})
    return {key: obj for key, obj in found.items() if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict)}


def _show_pleg(world: World, recording: Recording, now: tuple[State, int], prefix: str) -> None:
    state, at_ms = now
    for entry, _ in recording.entries((prefix + sources.LIFECYCLE,), at_ms, at_ms - EVENTS_MS):
        world.pleg.happened(convert(entry.value, PodLifecycleEvent), entry.at_ms / 1_000)
    for value in state.get(f"{prefix}{pleg.OWNER}/{pleg.PLEG_STATE}", {}).values():
        world.pleg.switched(convert(value, PlegState), at_ms / 1_000)
    world.pleg.synced = True


def overview(recording: Recording) -> tuple[list[int], Iterable[Measured]]:
    """Return the times at which a process was restarted or a device became Unhealthy, and the measurements.

    Both are those of all nodes. Raises RecordingInvalid.
    """
    times, measured = list[int](), Measurements()
    for change in recording.changes(0, recording.end_ms):
        if change is not None:
            measured.add(change)
            if _is_fault(change):
                times.append(change.at_ms)
    return times, measured.found


def _is_fault(change: Change) -> bool:
    match change.delta:
        case [2, dict() as fields]:  # a key frame sets whole values, which is no change
            restarted = change.source.endswith(sources.ACTORS) and "restarts" in fields
            return restarted or (change.source.endswith(HEALTH) and fields.get("health") == [1, devices.UNHEALTHY])
    return False
