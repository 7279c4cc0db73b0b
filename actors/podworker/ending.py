"""A pod that must go: stop its containers within their grace, free its devices, report, delete, remove."""

import asyncio
import shutil
from collections.abc import Callable

from actors.podworker import history
from actors.podworker.killer import Killer
from actors.podworker.lifecycle import victims
from actors.podworker.observer import Observer
from actors.podworker.ports import World
from actors.podworker.reporter import Reporter
from actors.podworker.sandbox_config import pod_log_directory
from actors.podworker.state import PodState
from actors.podworker.volumes.paths import pod_directory
from protocols.messages.pleg import PodStatus


class Ending:
    """Steps of stages TERMINATING and TERMINATED. `wake` is called when a stop has ended."""

    def __init__(
        self, state: PodState, world: World, observer: Observer, reporter: Reporter, wake: Callable[[], None]
    ) -> None:
        self._state = state
        self._world = world
        self._observer = observer
        self._reporter = reporter
        self._wake = wake
        self._killer = Killer(world, self._stopped)

    def close(self) -> None:
        self._killer.cancel()

    def _stopped(self) -> None:
        self._observer.mutated()
        self._wake()

    async def terminate(self) -> bool:
        """True once nothing of the pod runs and its devices are free."""
        status = await self._observer.confirmed()
        if history.live(status):
            self._reporter.report(self._state, status)
            self._stop_some(status)
            return False
        if await self._stop_sandboxes(status):
            status = await self._observer.status()
            if history.live(status):
                return await self.terminate()
        if not self._state.released:
            await self._world.devices.release(self._state.spec.uid)
            self._state.released = True
        self._reporter.report(self._state, status, final=True)
        return True

    def _stop_some(self, status: PodStatus) -> None:
        spec = self._state.spec
        for container in victims(spec, history.live(status)):
            self._killer.stop(spec, container, spec.grace, f"Stopping container {container.name}")

    async def _stop_sandboxes(self, status: PodStatus) -> bool:
        ready = [s.id for s in status.sandboxes if s.ready]
        try:
            for sandbox_id in ready:
                await self._world.runtime.stop_sandbox(sandbox_id)
        finally:
            if ready:
                self._observer.mutated()
        return bool(ready)

    async def conclude(self) -> bool:
        """True once API and runtime hold nothing of the pod. A completed pod stays until it is deleted."""
        state = self._state
        status = await self._observer.status()
        if not (state.gone or state.spec.deleting):
            self._reporter.report(state, status, final=True)
            return False
        if not state.gone and not state.deleted and not await self._delete():
            return False
        return await self._remove(status)

    async def _delete(self) -> bool:
        """Only after the API shows the final status."""
        if not self._world.statuses.settled(self._state.spec.uid):
            return False
        await self._world.pods.delete(self._state.spec)
        self._state.deleted = True
        return True

    async def _remove(self, status: PodStatus) -> bool:
        known = {s.id for s in status.sandboxes}
        loose = [c.id for c in status.containers if c.sandbox_id not in known]
        try:
            for sandbox in status.sandboxes:
                await self._world.runtime.remove_sandbox(sandbox.id)
            for container_id in loose:
                await self._world.runtime.remove_container(container_id)
        finally:
            if known or loose:
                self._observer.mutated()
        if known or loose:
            status = await self._observer.status()
        if status.sandboxes or status.containers:
            return False
        await asyncio.to_thread(self._remove_directories)
        return True

    def _remove_directories(self) -> None:
        spec, site = self._state.spec, self._world.site
        for directory in (pod_directory(site.root, spec.uid), pod_log_directory(site.logs, spec)):
            shutil.rmtree(directory, ignore_errors=True)
