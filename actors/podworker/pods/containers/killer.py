"""Stop containers in the background: one StopContainer call each, repeated when the grace period shrinks."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.model.errors import HookFailed
from actors.podworker.model.types import ContainerSpec, Kill, Plan, PodSpec
from actors.podworker.pods.probes.handlers import PRE_STOP, hook_of, run_hook
from protocols.bus import BusError

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 5.0


class Killer:
    """`on_end` is called after each call, good or bad: the pod is to be looked at again."""

    def __init__(self, deps: Dependencies, on_end: Callable[[], None]) -> None:
        self._deps = deps
        self._on_end = on_end
        self._until: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._announced: set[str] = set()
        self._hooked: set[str] = set()
        self._calls: dict[str, int] = {}

    def stop(self, spec: PodSpec, kill: Kill, grace: int) -> None:
        """Make sure the container is being stopped, and that it ends within `grace` seconds from now."""
        until = time.monotonic() + grace
        if until >= self._until.get(kill.id, float("inf")) - 1.0:
            return
        self._until[kill.id] = until
        container = spec.find(kill.name)
        if kill.id not in self._announced:
            self._announced.add(kill.id)
            named = container or ContainerSpec(kill.name, "", "app", "")
            self._deps.recorder.pod(spec, "Normal", "Killing", kill.message, named)
        task = asyncio.get_running_loop().create_task(self._stop(spec, container, kill.id, until))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def without_pending(self, plan: Plan) -> Plan:
        """The plan without what is being done: sandboxes are stopped once no container of theirs is being ended."""
        if not plan.kill:
            return plan
        fresh = tuple(kill for kill in plan.kill if kill.id not in self._until)
        return msgspec.structs.replace(plan, kill=fresh, stop_sandboxes=())

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _stop(self, spec: PodSpec, container: ContainerSpec | None, container_id: str, until: float) -> None:
        try:
            good = await self._call(spec, container, container_id, until)
            await self._pause(container_id, good)
        finally:
            self._until.pop(container_id, None)
            self._on_end()

    async def _call(self, spec: PodSpec, container: ContainerSpec | None, container_id: str, until: float) -> bool:
        """The preStop hook runs once, inside the grace; a second call, for a shorter grace, does not wait for it."""
        try:
            hook = hook_of(container, PRE_STOP)
            if container is not None and hook is not None and container_id not in self._hooked:
                self._hooked.add(container_id)
                await self._pre_stop(spec, container, container_id, until)
            await self._deps.runtime.stop_container(container_id, max(0, round(until - time.monotonic())))
        except BusError as error:  # the next look finds it alive still and stops it again
            if self._calls.get(container_id):  # once may be a runtime that is just being restarted
                text = f"error killing pod: failed to stop container {container_id[:12]}: {error}"
                self._deps.recorder.pod(spec, "Warning", "FailedKillPod", text, container)
            return False
        return True

    async def _pause(self, container_id: str, good: bool) -> None:
        """None after a first good call. A runtime that says so and goes on to show it alive is not asked in a loop."""
        calls = self._calls[container_id] = self._calls.get(container_id, 0) + 1
        if calls > 1 or not good:
            await asyncio.sleep(min(RETRY_FIRST_S * 2 ** min(calls - 1, 8), RETRY_MOST_S))

    async def _pre_stop(self, spec: PodSpec, container: ContainerSpec, container_id: str, until: float) -> None:
        hook = hook_of(container, PRE_STOP) or {}
        status = self._deps.pleg.known(spec.uid)
        ip = status.ips[0] if status is not None and status.ips else self._deps.node_info.host_ip
        try:
            await run_hook(self._deps, container, hook, container_id, ip, max(0.1, until - time.monotonic()))
        except HookFailed as error:
            text = f"PreStopHook failed: {error}"
            self._deps.recorder.pod(spec, "Warning", "FailedPreStopHook", text, container)
