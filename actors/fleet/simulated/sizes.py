"""In-place resize of a simulated pod: what the node has room for is allocated and actuated at once. Pure."""

import msgspec

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
from protocols.lifecycle.pods.types import Kill, PodSpec
from protocols.lifecycle.status.events import RESIZE_COMPLETED, RESIZE_STARTED, PodEvent, resize_pending
from protocols.messages.pleg import PodStatus


class Resized(msgspec.Struct):
    """Result of a resize."""

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
            found.events.append(RESIZE_STARTED)
    if pending is not None and pending != sizes.pending:
        found.events.append(resize_pending(pending))
    sizes.pending = pending


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
        found.events.append(RESIZE_COMPLETED)
