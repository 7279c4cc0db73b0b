"""Stop containers in the background: one StopContainer call each, repeated when the grace period shrinks.

All containers that end together share one grace period: their preStop hooks start at once, then each waits for the
containers that end before it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

import msgspec

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.model.errors import HookFailed, HookTimedOut
from actors.podworker.pods.probes.handlers import PRE_STOP, hook_of, run_hook
from protocols.bus import BusError
from protocols.lifecycle.pods.types import ContainerSpec, Kill, PodActions, PodSpec
from protocols.process.rates import backoff_delay
from protocols.process.tasks import Tasks
from protocols.trace import span

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 5.0
LEAST_GRACE_S = 2
"""Seconds that a container always has after its signal, as with kubelet."""
log = logging.getLogger("podworker")


class Killer:
    """Stops containers of one pod. `on_end(container_id, good)` is called after each call; not `good`: it failed."""

    def __init__(self, deps: Dependencies, on_end: Callable[[str, bool], None]) -> None:
        self._deps = deps
        self._on_end = on_end
        self._until: dict[str, float] = {}
        self._tasks = Tasks()
        self._announced: set[str] = set()
        self._hooked: set[str] = set()
        self._calls: dict[str, int] = {}
        self._ended: dict[str, asyncio.Event] = {}

    def stop(self, spec: PodSpec, kill: Kill, grace: int) -> None:
        """Ensure that the container is being stopped and ends within `grace` seconds."""
        until = time.monotonic() + grace
        if until >= self._until.get(kill.id, float("inf")) - 1.0:
            return
        self._until[kill.id] = until
        container = spec.find(kill.name)
        if kill.id not in self._announced:
            self._announced.add(kill.id)
            named = container or ContainerSpec(kill.name, "", "app", "")
            self._deps.recorder.pod(spec, "Normal", "Killing", kill.message, named)
        self._tasks.start(self._stop(spec, container, kill, until), "container stop", kill.id)

    def without_pending(self, plan: PodActions) -> PodActions:
        """Remove pending stops from the plan. Sandboxes are stopped only after all their containers."""
        if not plan.kill:
            return plan
        fresh = tuple(kill for kill in plan.kill if kill.id not in self._until)
        return msgspec.structs.replace(plan, kill=fresh, stop_sandboxes=())

    def forget(self, container_id: str) -> None:
        """Forget a container that was removed from the runtime."""
        self._announced.discard(container_id)
        self._hooked.discard(container_id)
        self._calls.pop(container_id, None)
        self._ended.pop(container_id, None)

    def cancel(self) -> None:
        self._tasks.cancel()

    async def _stop(self, spec: PodSpec, container: ContainerSpec | None, kill: Kill, until: float) -> None:
        good = False
        try:
            good = await self._call(spec, container, kill, until)
            await self._pause(kill.id, good)
        finally:
            self._until.pop(kill.id, None)
            self._on_end(kill.id, good)

    async def _call(self, spec: PodSpec, container: ContainerSpec | None, kill: Kill, until: float) -> bool:
        """Run the preStop hook, wait for the container's turn, then call StopContainer.

        The hook runs once, within the grace period; a second call, for a shorter grace period, does not wait for it.
        """
        try:
            hook = None if kill.fast else hook_of(container, PRE_STOP)
            if container is not None and hook is not None and kill.id not in self._hooked:
                self._hooked.add(kill.id)
                await self._pre_stop(spec, container, kill.id, until)
            await self._turn(kill, until)
            seconds = max(LEAST_GRACE_S, round(until - time.monotonic()))
            with span(spec.uid, "stop container", container=kill.name, id=kill.id, grace_s=seconds):
                await self._deps.runtime.stop_container(kill.id, seconds)
        except BusError as error:  # the next sync finds it alive and stops it again
            if self._calls.get(kill.id):  # the first failure may be a runtime that restarts
                text = f"error killing pod: failed to stop container {kill.id[:12]}: {error}"
                self._deps.recorder.pod(spec, "Warning", "FailedKillPod", text, container)
            return False
        self._end_of(kill.id).set()
        return True

    async def _turn(self, kill: Kill, until: float) -> None:
        """Wait until the containers before this one have ended, at most for the grace period."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                for container_id in kill.after:
                    await self._end_of(container_id).wait()

    def _end_of(self, container_id: str) -> asyncio.Event:
        return self._ended.setdefault(container_id, asyncio.Event())

    async def _pause(self, container_id: str, good: bool) -> None:
        """Pause before the next call, except after a first successful one.

        A runtime that reports success but still shows the container alive is not called in a loop.
        """
        calls = self._calls[container_id] = self._calls.get(container_id, 0) + 1
        if calls > 1 or not good:
            await asyncio.sleep(backoff_delay(calls, RETRY_FIRST_S, RETRY_MOST_S))

    async def _pre_stop(self, spec: PodSpec, container: ContainerSpec, container_id: str, until: float) -> None:
        hook = hook_of(container, PRE_STOP) or {}
        status = self._deps.pleg.known(spec.uid)  # none in the first moments of a pleg that was restarted
        shown = str((spec.raw.get("status") or {}).get("podIP") or self._deps.node_info.host_ip)
        ip = status.ips[0] if status is not None and status.ips else shown
        try:
            with span(spec.uid, "preStop hook", container=container.name):
                await run_hook(self._deps, spec, container, hook, container_id, ip, max(0.1, until - time.monotonic()))
        except HookFailed as error:
            name = container.name
            log.warning("preStop hook failed pod=%s/%s container=%s error=%s", spec.namespace, spec.name, name, error)
            if not isinstance(error, HookTimedOut):
                self._deps.recorder.pod(spec, "Warning", "FailedPreStopHook", "PreStopHook failed", container)
