"""The world of the console as it was at one time of a recording."""

from collections.abc import Mapping
from typing import Any

from protocols.kinds.table import PODS, RESOURCESLICES
from protocols.messages import devices
from protocols.messages.devices import DeviceHealth
from protocols.messages.objects import stream_of
from protocols.recording import sources
from protocols.recording.frames import RecordedChange, convert
from protocols.recording.reader import Recording, State, apply_change
from protocols.recording.samples import SERVER
from supervisor.console.feed.api import keep_slice
from supervisor.console.feed.streams import STREAMS
from supervisor.console.model.plane import ActorUsage
from supervisor.console.model.pods import pod_of
from supervisor.console.model.world import World
from supervisor.console.replay.history import History, Player, steps
from supervisor.report.status import merge
from supervisor.why.gather.replay import supervisors_of

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
