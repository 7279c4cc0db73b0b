"""In-place resize of a simulated pod: what the node has room for is allocated and actuated at once. Pure."""

from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.resources import Sizes, check_resize, desired_amounts, differs
from protocols.lifecycle.pods.types import PodSpec
from protocols.messages.pleg import PodStatus


def resize(spec: PodSpec, status: PodStatus, sizes: Sizes, room: NodeRoom, allocatable: dict[str, str]) -> None:
    """Allocate what the spec wants if the node has room, and give it to the running containers."""
    desired = desired_amounts(spec)
    if sizes.allocated is None:
        sizes.allocated = desired
    elif differs(sizes.allocated, desired):
        capacity = room.capacity_for(spec.uid, allocatable)
        sizes.pending = check_resize(spec, desired, capacity, cpus_pinned=False, memory_pinned=False)
        if sizes.pending is None:
            sizes.allocated = desired
            room.count(spec, desired)
    else:
        sizes.pending = None
    runs = runtime_status.live(status)
    sizes.actuated = {run.id: sizes.allocated[run.name] for run in runs if run.name in sizes.allocated}
