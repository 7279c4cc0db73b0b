"""After a restart: what is on disk becomes what is in memory, and containers that live on are taken over."""

import asyncio
import logging

import msgspec
from google.protobuf.message import DecodeError

from actors.runtime import command
from actors.runtime.clock import Clock
from actors.runtime.errors import InvalidRequest
from actors.runtime.hollow import HollowDriver
from actors.runtime.names import container_key, sandbox_key
from actors.runtime.orphans import boot_id, kill_process, kill_session
from actors.runtime.pods import Pods
from actors.runtime.processes import ProcessDriver
from actors.runtime.shim_link import connect, read_started
from actors.runtime.states import State
from actors.runtime.store import StateDirectory
from actors.runtime.types import Container, ContainerRecord, Sandbox, SandboxRecord
from protocols.wire import cri_pb2 as pb

_LOG = logging.getLogger("runtime")


class Adoption:
    def __init__(
        self, pods: Pods, state: StateDirectory, clock: Clock, processes: ProcessDriver, hollow: HollowDriver
    ) -> None:
        self._pods = pods
        self._state = state
        self._clock = clock
        self._processes = processes
        self._hollow = hollow
        self._boot = boot_id()

    async def run(self) -> None:
        sandboxes, containers = await asyncio.to_thread(self._state.load)
        for sandbox in sandboxes:
            self._add_sandbox(sandbox)
        for container in containers:
            self._add_container(container)
        await asyncio.gather(*(self._take_over(container) for container in list(self._pods.containers.values())))
        await asyncio.to_thread(self._sweep)

    def _add_sandbox(self, record: SandboxRecord) -> None:
        """Its processes ended with an earlier boot of the machine, if it is of one."""
        self._clock.observe(max(record.created_at, record.stopped_at))
        if record.boot != self._boot and not record.stopped_at:
            record = msgspec.structs.replace(record, stopped_at=self._clock.next())
        try:
            sandbox = Sandbox(record, pb.PodSandboxConfig.FromString(record.config))
        except DecodeError:
            _LOG.error("sandbox %s has an unusable configuration and was passed over", record.id)
            return
        self._pods.sandbox_names.reserve(sandbox_key(sandbox.config.metadata), record.id)
        self._pods.add_sandbox(sandbox)

    def _add_container(self, record: ContainerRecord) -> None:
        self._clock.observe(max(record.life.created_at, record.life.finished_at))
        sandbox = self._pods.sandboxes.get(record.sandbox_id)
        try:
            config = pb.ContainerConfig.FromString(record.config)
            script = command.hollow_script(config, sandbox.config) if sandbox else None
        except (DecodeError, InvalidRequest):
            sandbox = None
        if sandbox is None:
            _LOG.error("container %s has no usable record of its sandbox or itself and was passed over", record.id)
            return
        self._pods.container_names.reserve(container_key(config.metadata, sandbox.config.metadata), record.id)
        self._pods.add_container(Container(record, config, sandbox, script))

    async def _take_over(self, container: Container) -> None:
        if container.life.state is State.EXITED:
            return
        if container.hollow is not None:
            self._hollow.adopt(container)
        else:
            await self._processes.adopt(container)

    def _sweep(self) -> None:
        """Shims whose container was removed when the runtime was killed in the middle of that."""
        for id in self._state.shims():
            if id not in self._pods.containers:
                self._end_shim(id)

    def _end_shim(self, id: str) -> None:
        directory = self._state.shim(id)
        connection, began = connect(directory), read_started(directory)
        if began is not None:
            kill_session(began.pid, began.ticks, began.boot)
        if connection is not None:
            with connection:
                connection.send(msgspec.json.encode({"op": "kill"}))
            if began is not None:
                kill_process(began.shim)
        self._state.remove_shim(id)
