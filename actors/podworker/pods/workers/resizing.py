"""Resize running containers in place: ask whether the node has room, then change the container."""

from collections.abc import Callable

from actors.podworker.pods.workers.context import WorkerContext
from protocols.bus import BusError
from protocols.kinds import views
from protocols.lifecycle.node import resize
from protocols.lifecycle.pods.resources import (
    EXCLUSIVE_QUOTA,
    Amounts,
    container_resources,
    linux_resources,
    milli,
    with_allocated,
)
from protocols.lifecycle.pods.types import SECOND
from protocols.lifecycle.status.events import PodEvent
from protocols.messages.pleg import PodStatus

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
        self._unobserved = resize.unobserved(context.state.spec)
        self._counted: dict[str, Amounts] | None = None
        """Allocated resources with which the node counts the pod."""

    async def sync(self, status: PodStatus, shown: views.PodStatus) -> bool:
        """Allocate and actuate after admission. Returns True if the status changed."""
        spec, sizes, before = self._state.spec, self._sizes, self._shown()
        runs = resize.running(status)
        resize.adopt(spec, sizes, runs, shown, self._unobserved)
        self._record(resize.allocate(spec, sizes, self._limits()))
        if self._counted != sizes.allocated:
            self._counted = sizes.allocated
            self._room.count(spec, self._counted)
        self._room.defer(spec, sizes.is_deferred)
        changes = resize.size_changes(spec, sizes, runs)
        faults = [fault for change in changes if (fault := await self._change(change))]
        self._record(resize.conclude(sizes, changes, "; ".join(faults)))
        self.due_ns = self._clock() + AGAIN_NS if sizes.fault or sizes.is_deferred else 0
        return self._shown() != before

    def _shown(self) -> tuple[object, ...]:
        sizes = self._sizes
        return sizes.allocated, dict(sizes.actuated), sizes.conditions

    def _limits(self) -> resize.ResizeLimits:
        grants = (self._state.grants or {}).values()
        cpus_pinned = bool(self._deps.devices.shared()) or any(grant.cpus for grant in grants)
        allocatable = (self._deps.local_node.node().get("status") or {}).get("allocatable") or {}
        capacity = self._room.capacity_for(self._state.spec, allocatable)
        return resize.ResizeLimits(capacity, cpus_pinned, memory_pinned=any(grant.mems for grant in grants))

    async def _change(self, change: resize.SizeChange) -> str:
        """Resize one container. Returns the error; empty on success, or if the container restarts for it."""
        spec, run = self._state.spec, change.run
        if change.kill is not None:
            self._state.replaced.add(run.id)
            self._killer.stop(spec, change.kill, spec.grace)
            return ""
        given = with_allocated(change.container, change.size).raw
        resources = linux_resources(container_resources(spec.raw.get("spec") or {}, given))
        if (grant := (self._state.grants or {}).get(run.name)) and grant.cpus:
            resources.cpu_quota = EXCLUSIVE_QUOTA
        try:
            if fault := await self._excess(change, resources.memory_limit_in_bytes):
                return fault
            await self._deps.runtime.resize(run.id, resources)
        except BusError as error:
            self._sizes.uncertain.add(run.id)
            return f"container {run.name}: {error}"
        self._sizes.uncertain.discard(run.id)
        self._sizes.actuated[run.id] = change.size
        return ""

    async def _excess(self, change: resize.SizeChange, limit: int) -> str:
        """Return upstream's error for a limit below what the container uses: the kernel would end it."""
        before = milli(self._sizes.actuated[change.run.id]["limits"].get("memory")) // 1000
        if not limit or (limit >= before > 0 and change.run.id not in self._sizes.uncertain):
            return ""
        used = await self._deps.runtime.memory_used(change.run.id)
        if used <= limit:
            return ""
        what = f'container "{change.run.name}" memory limit ({limit})'
        return f"cannot decrease memory limits: attempting to set {what} below current usage ({used})"

    def _record(self, events: list[PodEvent]) -> None:
        for event in events:
            self._deps.recorder.pod(self._state.spec, *event)
