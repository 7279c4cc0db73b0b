"""In-place resize of a simulated pod: what the node has room for is allocated and actuated at once. Pure."""

import msgspec

from actors.fleet.simulated.outcome import PodEvent
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.resources import (
    DEFERRED,
    Sizes,
    changes,
    check_resize,
    desired_amounts,
    differs,
    restarts_for,
)
from protocols.lifecycle.pods.types import Kill, PodSpec, Waiting
from protocols.messages.pleg import PodStatus


class Resized(msgspec.Struct):
    """What follows from a resize."""

    kill: list[Kill] = []
    """Containers that restart for it."""
    events: list[PodEvent] = []
    deferred: bool = False
    """Try again later: the node lacks room only now."""


def resize(spec: PodSpec, status: PodStatus, sizes: Sizes, room: NodeRoom, allocatable: dict[str, str]) -> Resized:
    """Allocate what the spec wants if the node has room, and give it to the running containers."""
    found = Resized()
    _allocate(spec, sizes, room, allocatable, found)
    _actuate(spec, status, sizes, found)
    found.deferred = sizes.pending is not None and sizes.pending.reason == DEFERRED
    return found


def _allocate(spec: PodSpec, sizes: Sizes, room: NodeRoom, allocatable: dict[str, str], found: Resized) -> None:
    desired, pending = desired_amounts(spec), None
    if sizes.allocated is None:
        sizes.allocated = desired
    elif differs(sizes.allocated, desired):
        capacity = room.capacity_for(spec.uid, allocatable)
        pending = check_resize(spec, desired, capacity, cpus_pinned=False, memory_pinned=False)
        if pending is None:
            sizes.allocated = desired
            room.count(spec, desired)
            text = "Pod resize started: the node has allocated what the spec wants"
            found.events.append(PodEvent("Normal", "ResizeStarted", text))
    if pending is not None and pending != sizes.pending:
        found.events.append(_pending(pending))
    sizes.pending = pending


def _pending(why: Waiting) -> PodEvent:
    return PodEvent("Warning", f"Resize{why.reason}", f"Pod resize {why.reason}: {why.message}")


def _actuate(spec: PodSpec, status: PodStatus, sizes: Sizes, found: Resized) -> None:
    assert sizes.allocated is not None
    changing, actuated = sizes.in_progress, {}
    for run in runtime_status.live(status):
        container, size = spec.find(run.name), sizes.allocated.get(run.name)
        if container is None or size is None:
            continue
        before = sizes.actuated.get(run.id, size)
        changed = changes(before, size)
        if restarts_for(spec, container, changed):
            text = f"Container {run.name} resize requires restart"
            found.kill.append(Kill(run.id, run.name, text, restart=True))
            actuated[run.id] = before
        else:
            actuated[run.id] = size
        changing = changing or bool(changed)
    sizes.actuated, sizes.in_progress = actuated, bool(found.kill)
    if changing and not found.kill:
        found.events.append(PodEvent("Normal", "ResizeCompleted", "Pod resize completed"))
