"""Operations on sandboxes.

A sandbox is a record that groups containers. It has a process only if it has namespaces of its own: for containers that
share their processes, or for sysctls.
"""

import asyncio

import msgspec

from actors.runtime.cgroups.pods import pod_group
from actors.runtime.model.containers import Sandbox, SandboxRecord
from actors.runtime.model.errors import InvalidRequest, NotFound, ShuttingDown
from actors.runtime.model.pods import new_id, sandbox_key
from actors.runtime.operations.containers import Containers, Dependencies
from actors.runtime.spec.sysctls import check_sysctls, kernel_paths
from protocols.process.proc import boot_id
from protocols.wire import cri_pb2 as pb


class Sandboxes:
    """Run, stop, remove: each is on disk before it is answered, and may be repeated."""

    def __init__(self, dependencies: Dependencies, containers: Containers) -> None:
        self._deps = dependencies
        self._containers = containers
        self._boot = boot_id()
        self._holders = dependencies.processes.holders
        self._holders.on_lost = self._mark_stopped

    async def run(self, config: pb.PodSandboxConfig, handler: str) -> str:
        """Create a ready sandbox. Raises InvalidRequest, NameReserved, StateNotWritten, ShuttingDown."""
        if self._containers.shutting_down:
            raise ShuttingDown("the plane is going down and creates no sandboxes")
        _check(config, handler)
        pod_group(config, unified=False)
        key, id = sandbox_key(config.metadata), new_id()
        self._deps.pods.sandbox_names.reserve(key, id)
        stored = SandboxRecord(id, self._deps.clock.next(), self._boot, config.SerializeToString(), handler)
        try:
            await asyncio.to_thread(self._deps.state.save, stored)
        except BaseException:
            self._deps.pods.sandbox_names.release(key)
            raise
        sandbox = Sandbox(stored, config)
        if kernel_paths(config.linux.sysctls):
            await self._hold(sandbox)
        self._deps.pods.add_sandbox(sandbox)
        self._deps.events.emit(pb.CONTAINER_CREATED_EVENT, id, sandbox)
        self._deps.events.emit(pb.CONTAINER_STARTED_EVENT, id, sandbox)
        return id

    async def _hold(self, sandbox: Sandbox) -> None:
        """Set the sysctls before anything runs; where that fails, there is no sandbox."""
        try:
            await self._holders.ensure(sandbox)
        except BaseException:
            self._deps.pods.sandbox_names.release(sandbox_key(sandbox.config.metadata))
            self._holders.end(sandbox)
            await asyncio.to_thread(self._deps.state.remove, sandbox.record)
            raise

    async def stop(self, id: str) -> None:
        """Kill the containers and mark the sandbox not ready. An unknown or stopped one is no error."""
        if sandbox := self._find(id):
            await self._stop(sandbox)

    async def stop_all(self, grace: float) -> None:
        """Stop all containers with their stop signal, then the sandboxes, for `nodeplane down`.

        Stopped sandboxes show a restarted node that nothing crashed.
        """
        await self._containers.stop_all(grace)
        ends = (self._stop(sandbox) for sandbox in list(self._deps.pods.sandboxes.values()))
        for error in await asyncio.gather(*ends, return_exceptions=True):
            if error is not None:
                raise error
        await asyncio.to_thread(self._deps.mount_points.clear)

    async def update(self, id: str, resources: pb.LinuxContainerResources) -> None:
        """Change the resources of a pod. Raises NotFound, StateNotWritten."""
        sandbox = self._deps.pods.sandbox(id)
        config = pb.PodSandboxConfig()
        async with sandbox.writing:
            self._deps.pods.sandbox(sandbox.id)  # it may have been removed meanwhile
            config.CopyFrom(sandbox.config)
            config.linux.resources.CopyFrom(resources)
            await self._save_config(sandbox, config)
        cgroups = self._deps.processes.cgroups
        cgroups.update_pod(pod_group(config, cgroups.unified))

    async def _save_config(self, sandbox: Sandbox, config: pb.PodSandboxConfig) -> None:
        stored = msgspec.structs.replace(sandbox.record, config=config.SerializeToString())
        await asyncio.to_thread(self._deps.state.save, stored)
        sandbox.record, sandbox.config = msgspec.structs.replace(sandbox.record, config=stored.config), config
        if sandbox.record.stopped_at != stored.stopped_at:  # it stopped meanwhile, and the file says otherwise
            self._deps.state.save(sandbox.record, durable=False)

    async def remove(self, id: str) -> None:
        sandbox = self._find(id)
        if sandbox is None:
            return
        await self._stop(sandbox)
        for container in list(sandbox.containers.values()):
            await self._containers.remove(container.id)
        async with sandbox.writing:
            if sandbox.id not in self._deps.pods.sandboxes:
                return  # another call removed it meanwhile
            await asyncio.to_thread(self._deps.state.remove, sandbox.record)
            self._deps.events.emit(pb.CONTAINER_DELETED_EVENT, sandbox.id, sandbox)
            self._deps.pods.remove_sandbox(sandbox)

    async def _stop(self, sandbox: Sandbox) -> None:
        """Stop what runs, also in a sandbox that lost its namespaces."""
        sandbox.stopping = True
        await asyncio.gather(*(self._containers.stop(id, 0) for id in list(sandbox.containers)))
        self._holders.end(sandbox)
        self._mark_stopped(sandbox)

    def _mark_stopped(self, sandbox: Sandbox) -> None:
        """Save without a sync: after a loss of power the boot id differs, which marks it stopped too."""
        if sandbox.record.stopped_at:
            return  # by another call, meanwhile
        stopped = msgspec.structs.replace(sandbox.record, stopped_at=self._deps.clock.next())
        self._deps.state.save(stopped, durable=False)
        sandbox.record = stopped
        self._deps.events.emit(pb.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)

    def _find(self, id: str) -> Sandbox | None:
        try:
            return self._deps.pods.sandbox(id)
        except NotFound:
            return None


def _check(config: pb.PodSandboxConfig, handler: str) -> None:
    metadata = config.metadata
    if not (metadata.name and metadata.namespace and metadata.uid):
        raise InvalidRequest("config.metadata needs name, namespace and uid")
    check_sysctls(config.linux.sysctls)
    options = config.linux.security_context.namespace_options
    if options.HasField("userns_options") and options.userns_options.mode != pb.NODE:
        raise InvalidRequest("userns_options: pods of the embedded runtime have no user namespace of their own")
    if handler:
        raise InvalidRequest(f'no runtime handler "{handler}": the embedded runtime has only the default one, ""')
