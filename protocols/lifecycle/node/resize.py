"""The order of an in-place resize: adopt what runs, allocate what the node has room for, change the containers. Pure.

Callers read the clock, count the pod in the room of its node, and carry out each SizeChange; after a success they note
its size in `Sizes.actuated`, after a failure that it is uncertain. What remains is tried again at the next sync.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from protocols.kinds import views
from protocols.kube.meta import condition_true
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.resources import (
    IN_PROGRESS,
    Amounts,
    NodeCapacity,
    Sizes,
    changes,
    check_resize,
    desired_amounts,
    differs,
    resizable,
    restarts_for,
    shown_sizes,
)
from protocols.lifecycle.pods.types import ContainerSpec, Kill, PodSpec
from protocols.lifecycle.status.conditions import generation_of
from protocols.lifecycle.status.events import RESIZE_COMPLETED, RESIZE_STARTED, PodEvent, resize_pending
from protocols.messages.pleg import ContainerStatus, PodStatus


class ResizeLimits(NamedTuple):
    """The room that a node has for a pod."""

    capacity: NodeCapacity
    cpus_pinned: bool = False
    """Containers of the node are pinned to CPUs."""
    memory_pinned: bool = False
    """The pod has exclusive memory."""


class SizeChange(NamedTuple):
    """A running container whose allocated resources are not actuated."""

    container: ContainerSpec
    run: ContainerStatus
    size: Amounts
    """Its allocated resources."""
    kill: Kill | None
    """Set if the container restarts for it."""


def running(status: PodStatus) -> list[ContainerStatus]:
    """Return the running attempt of each container."""
    newest = (runs[0] for runs in runtime_status.by_name(status).values())
    return [run for run in newest if run.state == runtime_status.RUNNING]


def unobserved(spec: PodSpec) -> bool:
    """Return True if the spec changed after the API's status was written: a resize may be missing in it."""
    return 0 < (spec.raw.get("status") or {}).get("observedGeneration", 0) < generation_of(spec)


def adopt(
    spec: PodSpec, sizes: Sizes, runs: Sequence[ContainerStatus], shown: views.PodStatus, unobserved: bool = False
) -> None:
    """Assume that running containers have what was allocated: at first what the pod was admitted with.

    Without an admission that is what the API's status shows.

    `unobserved`: of the spec with which the worker began.
    """
    if sizes.allocated is None and (unobserved or condition_true({"status": shown}, IN_PROGRESS)):
        sizes.uncertain = {run.id for run in runs}
    first = shown_sizes(shown) if sizes.admitted is None else sizes.admitted
    allocated = first if sizes.allocated is None else sizes.allocated
    sizes.allocated = {name: allocated.get(name, size) for name, size in desired_amounts(spec).items()}
    before, sizes.actuated = sizes.actuated, {}
    sizes.uncertain.intersection_update({run.id for run in runs})
    for run in runs:
        if size := before.get(run.id) or sizes.allocated.get(run.name):
            sizes.actuated[run.id] = size


def allocate(spec: PodSpec, sizes: Sizes, limits: ResizeLimits) -> list[PodEvent]:
    """Allocate what the spec wants, or note why it waits; return the events of that. `adopt` comes first."""
    desired, pending = desired_amounts(spec), None
    events = []
    if differs(sizes.allocated or {}, desired):
        pending = check_resize(spec, sizes.allocated or {}, desired, *limits)
        if pending is None:
            sizes.allocated = desired
            events.append(RESIZE_STARTED)
        elif pending != sizes.pending:
            events.append(resize_pending(pending))
    sizes.pending = pending
    return events


def size_changes(spec: PodSpec, sizes: Sizes, runs: Iterable[ContainerStatus]) -> list[SizeChange]:
    """Return the containers to change, in the order of `runs`."""
    containers = {container.name: container for container in resizable(spec)}
    resizes = []
    for run in runs:
        size = (sizes.allocated or {}).get(run.name)
        if size is None or not ((changed := changes(sizes.actuated[run.id], size)) or run.id in sizes.uncertain):
            continue
        text = f"Container {run.name} resize requires restart"
        restarts = restarts_for(spec, containers[run.name], changed)
        kill = Kill(run.id, run.name, text, restart=True) if restarts else None
        resizes.append(SizeChange(containers[run.name], run, size, kill))
    return resizes


def conclude(sizes: Sizes, tried: Iterable[SizeChange], fault: str = "") -> list[PodEvent]:
    """Note what remains of the tried changes, and the runtime's error; return the events of that."""
    changing = list(tried)
    left = any(sizes.actuated[change.run.id] != change.size or change.run.id in sizes.uncertain for change in changing)
    events = []
    if fault and fault != sizes.fault:
        events.append(PodEvent("Warning", "ResizeError", f"Pod resize error: {fault}"))
    if (changing or sizes.in_progress) and not left:
        events.append(RESIZE_COMPLETED)
    sizes.in_progress, sizes.fault = left, fault
    return events
