"""End a pod: stop its containers within their grace period, free its devices, report, delete, remove.

Stages of a pod uid on this node: syncing -> terminating -> terminated -> finished, and no way back.
"""

import asyncio
from functools import partial

from actors.podworker.pods.volumes.directories import remove_directories
from actors.podworker.pods.workers.context import WorkerContext
from protocols.kinds import views
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.claims import uses_claims
from protocols.lifecycle.pods.types import is_static
from protocols.lifecycle.restarts.kills import stop_all
from protocols.lifecycle.status.device_health import covers, held_in, merged
from protocols.messages.health import PodHeld
from protocols.messages.pleg import PodStatus
from protocols.trace import span

WRITTEN_S = 1.0


class PodTermination:
    """Steps of stages TERMINATING and TERMINATED."""

    def __init__(self, context: WorkerContext) -> None:
        self._state = context.state
        self._deps = context.deps
        self._observer = context.observer
        self._reporter = context.reporter
        self._killer = context.killer
        self._probes = context.probes
        self._room = context.room

    async def terminate(self) -> bool:
        """Return True once nothing runs, claims are unprepared and devices are free."""
        status = await self._observer.confirmed()
        self._probes.end()
        self._probes.follow(status, self._reporter.api_status(self._state))
        if runtime_status.live(status):
            self._reporter.report(self._state, status)
            self._stop_some(status)
            return False
        if await self._stop_sandboxes(status):
            status = await self._observer.status()
            if runtime_status.live(status):
                return await self.terminate()
        if not self._state.released:
            if not await self._status_persisted(status):
                return False
            if self._state.held:  # before its claims are unprepared, so that devices and health go on without a gap
                self._publish_ended(self._reporter.api_status(self._state))
            if not self._state.spec.raw or uses_claims(self._state.spec):  # only the uid of an orphan is known
                with span(self._state.spec.uid, "unprepare claims"):
                    await self._deps.devices.unprepare(self._state.spec.uid)
            with span(self._state.spec.uid, "release devices"):
                await self._deps.devices.release(self._state.spec.uid)
            self._state.released = True
            self._room.discount(self._state.spec.uid)
        self._reporter.report(self._state, status, final=True)
        return True

    async def _status_persisted(self, status: PodStatus) -> bool:
        """Return True once the API's status shows the devices that a finished pod held.

        After they are free nobody else remembers them. They stay the pod's until an API that is away has seen them;
        then the pod is synced again. The API knows only the mirror of a static pod, so that one is not waited for.
        """
        state, spec = self._state, self._state.spec
        if state.gone or spec.deleting or not self._deps.health.enabled:
            return True
        state.held = state.held or await self._deps.health.held(spec.uid, state.grants is not None)
        if not state.held:
            return True
        self._reporter.report(state, status, final=True)
        await self._deps.statuses.wait_settled(spec.uid, WRITTEN_S)
        shown = held_in(spec.raw.get("status") or {})
        return self._deps.statuses.settled(spec.uid) or covers(shown, state.held) or is_static(spec.raw)

    def _stop_some(self, status: PodStatus) -> None:
        spec = self._state.spec
        for kill in stop_all(spec, runtime_status.live(status)):
            self._killer.stop(spec, kill, spec.grace)

    async def _stop_sandboxes(self, status: PodStatus) -> bool:
        ready = [s.id for s in status.sandboxes if s.ready]
        try:
            for sandbox_id in ready:
                with span(self._state.spec.uid, "stop sandbox", id=sandbox_id):
                    await self._deps.runtime.stop_sandbox(sandbox_id)
        except BaseException:
            self._observer.mutated()
            raise
        if ready:
            self._observer.changed(partial(runtime_status.shows_stopped, ready))
        return bool(ready)

    async def clean_up(self) -> bool:
        """Return True once API and runtime have nothing of the pod. A finished pod stays until it is deleted."""
        state = self._state
        status = await self._observer.status()
        if not (state.gone or state.spec.deleting):
            shown = self._reporter.report(state, status, final=True)
            self._publish_ended(shown)
            return False
        self._deps.health.publish_ended(state.spec, PodHeld())
        if not state.gone and not state.deleted and not await self._delete(status):
            return False
        return await self._remove(status)

    def _publish_ended(self, shown: views.PodStatus) -> None:
        self._deps.health.publish_ended(self._state.spec, merged(self._state.held, held_in(shown)))

    async def _delete(self, status: PodStatus) -> bool:
        """Delete the pod once the API shows the final status, which a restored backup or others may have replaced."""
        if not self._deps.statuses.settled(self._state.spec.uid):
            self._reporter.report(self._state, status, final=True)
            return False
        with span(self._state.spec.uid, "delete"):
            await self._deps.pods.delete(self._state.spec)
        self._state.deleted = True
        return True

    async def _remove(self, status: PodStatus) -> bool:
        """Remove directories first, then sandboxes and containers.

        After a crash in between, the runtime still lists the pod, so that nothing is left behind.
        """
        await asyncio.to_thread(remove_directories, self._deps.node_info, self._state.spec)
        known = {s.id for s in status.sandboxes}
        loose = [c.id for c in status.containers if c.sandbox_id not in known]
        try:
            for sandbox in status.sandboxes:
                await self._deps.runtime.remove_sandbox(sandbox.id)
            for container_id in loose:
                await self._deps.runtime.remove_container(container_id)
        finally:
            if known or loose:
                self._observer.mutated()
        if known or loose:
            if await self._observer.is_dropped():
                return True
            status = await self._observer.status()
        return not (status.sandboxes or status.containers)
