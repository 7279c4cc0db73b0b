"""Resize running containers in place: ask whether the node has room, then change the container."""

from collections.abc import Callable, Iterable

from actors.podworker.pods.workers.context import WorkerContext
from protocols.bus import BusError
from protocols.kinds import views
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.resources import (
    DEFERRED,
    Amounts,
    changes,
    check_resize,
    container_resources,
    desired_amounts,
    differs,
    linux_resources,
    resizable,
    restarts_for,
    shown_sizes,
    with_allocated,
)
from protocols.lifecycle.pods.types import SECOND, ContainerSpec, Kill, Waiting
from protocols.lifecycle.status.events import RESIZE_COMPLETED, RESIZE_STARTED, PodEvent, resize_pending
from protocols.messages.pleg import ContainerStatus, PodStatus

AGAIN_NS = 10 * SECOND
"""Pause before a deferred or failed resize is retried."""


class Resizing:
    """In-place resize of one pod. `due_ns`: time of the next attempt; 0 = none."""

    def __init__(self, context: WorkerContext, clock: Callable[[], int]) -> None:
        self._state = context.state
        self._sizes = context.state.sizes
        self._deps = context.deps
        self._killer = context.killer
        self._room = context.room
        self._clock = clock
        self.due_ns = 0
        self._counted: dict[str, Amounts] | None = None
        """Allocated resources with which the node counts the pod."""

    async def sync(self, status: PodStatus, shown: views.PodStatus) -> bool:
        """Allocate and actuate after admission. Returns True if the status changed."""
        running = list(_running(status))
        allocated = self._adopt(running, shown)
        before = self._shown()
        self._allocate(allocated)
        if self._counted != self._sizes.allocated:
            self._counted = self._sizes.allocated
            self._room.count(self._state.spec, self._counted)
        await self._actuate(running)
        self._retry()
        return self._shown() != before

    def _shown(self) -> tuple[object, ...]:
        sizes = self._sizes
        return sizes.allocated, dict(sizes.actuated), sizes.conditions

    def _adopt(self, running: list[tuple[str, ContainerStatus]], shown: views.PodStatus) -> dict[str, Amounts]:
        """Assume that running containers have what was allocated; after a restart, what the API's status shows."""
        spec, sizes = self._state.spec, self._sizes
        adopted = sizes.allocated is None
        allocated = shown_sizes(shown) if sizes.allocated is None else sizes.allocated
        new = desired_amounts(spec)
        allocated = {name: allocated.get(name, size) if not adopted or running else size for name, size in new.items()}
        ids = {run.id for _, run in running}
        sizes.actuated = {id: size for id, size in sizes.actuated.items() if id in ids}
        for name, run in running:
            if name in allocated:
                sizes.actuated.setdefault(run.id, allocated[name])
        sizes.allocated = allocated
        return allocated

    def _allocate(self, allocated: dict[str, Amounts]) -> None:
        spec, sizes = self._state.spec, self._sizes
        new = desired_amounts(spec)
        if not differs(allocated, new):
            self._set_pending(None)
            return
        memory_pinned = any(grant.mems for grant in (self._state.grants or {}).values())
        allocatable = (self._deps.local_node.node().get("status") or {}).get("allocatable") or {}
        capacity = self._room.capacity_for(spec.uid, allocatable)
        pending = check_resize(spec, new, capacity, bool(self._deps.devices.shared()), memory_pinned)
        self._set_pending(pending)
        if pending is None:
            sizes.allocated = new
            self._record(RESIZE_STARTED)

    def _set_pending(self, pending: Waiting | None) -> None:
        sizes = self._sizes
        if pending is not None and pending != sizes.pending:
            self._record(resize_pending(pending))
        sizes.pending = pending

    async def _actuate(self, running: list[tuple[str, ContainerStatus]]) -> None:
        sizes, changing, faults = self._sizes, self._sizes.in_progress, []
        containers = {container.name: container for container in resizable(self._state.spec)}
        left = False
        for name, run in running:
            size = (sizes.allocated or {}).get(name)
            if size is None or not (changed := changes(sizes.actuated[run.id], size)):
                continue
            changing = True
            fault = await self._change(containers[name], run, size, changed)
            left = left or sizes.actuated[run.id] != size
            faults += [fault] if fault else []
        self._conclude(changing, left, "; ".join(faults))

    def _conclude(self, changing: bool, left: bool, fault: str) -> None:
        sizes = self._sizes
        if fault and fault != sizes.fault:
            self._record(PodEvent("Warning", "ResizeError", f"Pod resize error: {fault}"))
        if changing and not left:
            self._record(RESIZE_COMPLETED)
        sizes.in_progress, sizes.fault = left, fault

    async def _change(self, container: ContainerSpec, run: ContainerStatus, size: Amounts, changed: set[str]) -> str:
        """Resize one container. Returns the error; empty on success, or if the container restarts for it."""
        spec = self._state.spec
        if restarts_for(spec, container, changed):
            text = f"Container {container.name} resize requires restart"
            self._state.replaced.add(run.id)
            self._killer.stop(spec, Kill(run.id, run.name, text), spec.grace)
            return ""
        given = with_allocated(container, size).raw
        resources = linux_resources(container_resources(spec.raw.get("spec") or {}, given))
        try:
            await self._deps.runtime.resize(run.id, resources)
        except BusError as error:
            return f"container {container.name}: {error}"
        self._sizes.actuated[run.id] = size
        return ""

    def _retry(self) -> None:
        waits = self._sizes.fault or (self._sizes.pending is not None and self._sizes.pending.reason == DEFERRED)
        self.due_ns = self._clock() + AGAIN_NS if waits else 0

    def _record(self, event: PodEvent) -> None:
        self._deps.recorder.pod(self._state.spec, *event)


def _running(status: PodStatus) -> Iterable[tuple[str, ContainerStatus]]:
    for name, runs in runtime_status.by_name(status).items():
        if runs[0].state == runtime_status.RUNNING:
            yield name, runs[0]
