"""Operations on sandboxes. A sandbox has no process of its own: it is a record that groups containers."""

import asyncio

import msgspec

from actors.runtime.backends.procfs import boot_id
from actors.runtime.model.containers import Sandbox, SandboxRecord
from actors.runtime.model.errors import GoingDown, InvalidRequest, NotFound
from actors.runtime.model.pods import Clock, Pods, new_id, sandbox_key
from actors.runtime.operations.containers import Containers
from actors.runtime.state.container_events import Events
from actors.runtime.state.directory import StateDirectory
from protocols.wire import cri_pb2 as pb


class Sandboxes:
    def __init__(self, pods: Pods, containers: Containers, state: StateDirectory, events: Events, clock: Clock) -> None:
        self._pods = pods
        self._containers = containers
        self._state = state
        self._events = events
        self._clock = clock
        self._boot = boot_id()

    async def run(self, config: pb.PodSandboxConfig, handler: str) -> str:
        """Make a sandbox that is ready on return. Raises InvalidRequest, NameReserved, StateNotWritten, GoingDown."""
        if self._containers.going_down:
            raise GoingDown("the plane is going down and makes no sandboxes")
        _check(config, handler)
        key, id = sandbox_key(config.metadata), new_id()
        self._pods.sandbox_names.reserve(key, id)
        stored = SandboxRecord(id, self._clock.next(), self._boot, config.SerializeToString(), handler)
        try:
            await asyncio.to_thread(self._state.save, stored)
        except BaseException:
            self._pods.sandbox_names.release(key)
            raise
        sandbox = Sandbox(stored, config)
        self._pods.add_sandbox(sandbox)
        self._events.emit(pb.CONTAINER_CREATED_EVENT, id, sandbox)
        self._events.emit(pb.CONTAINER_STARTED_EVENT, id, sandbox)
        return id

    async def stop(self, wanted: str) -> None:
        """Kill its containers, then it is not ready for good. An unknown or stopped one is no error."""
        if sandbox := self._find(wanted):
            await self._stop(sandbox)

    async def stop_all(self, grace: float) -> None:
        """For `nodeplane down`: containers by the stop signal, then their sandboxes, as at the machine's end.

        A node that comes back knows by the sandboxes that nothing crashed.
        """
        await self._containers.stop_all(grace)
        ends = (self._stop(sandbox) for sandbox in list(self._pods.sandboxes.values()))
        for error in await asyncio.gather(*ends, return_exceptions=True):
            if error is not None:
                raise error

    async def remove(self, wanted: str) -> None:
        sandbox = self._find(wanted)
        if sandbox is None:
            return
        await self._stop(sandbox)
        for container in list(sandbox.containers.values()):
            await self._containers.remove(container.id)
        if sandbox.id not in self._pods.sandboxes:
            return  # another call removed it meanwhile
        await asyncio.to_thread(self._state.remove, sandbox.record)
        if sandbox.id in self._pods.sandboxes:
            self._events.emit(pb.CONTAINER_DELETED_EVENT, sandbox.id, sandbox)
            self._pods.drop_sandbox(sandbox)

    async def _stop(self, sandbox: Sandbox) -> None:
        if not sandbox.record.stopped_at:
            sandbox.stopping = True
            await asyncio.gather(*(self._containers.stop(id, 0) for id in list(sandbox.containers)))
            self._mark_stopped(sandbox)

    def _mark_stopped(self, sandbox: Sandbox) -> None:
        """Its record need not be synced: after a loss of power it is of an earlier boot, and stopped by that."""
        if sandbox.record.stopped_at:
            return  # by another call, meanwhile
        stopped = msgspec.structs.replace(sandbox.record, stopped_at=self._clock.next())
        self._state.save(stopped, durable=False)
        sandbox.record = stopped
        self._events.emit(pb.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)

    def _find(self, wanted: str) -> Sandbox | None:
        try:
            return self._pods.sandbox(wanted)
        except NotFound:
            return None


def _check(config: pb.PodSandboxConfig, handler: str) -> None:
    metadata = config.metadata
    if not (metadata.name and metadata.namespace and metadata.uid):
        raise InvalidRequest("config.metadata needs name, namespace and uid")
    if handler:
        raise InvalidRequest(f'no runtime handler "{handler}": the embedded runtime has only the default one, ""')
