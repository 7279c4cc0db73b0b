"""After a restart: what is on disk becomes what is in memory, and containers that live on are taken over."""

import asyncio
import logging

import msgspec
from google.protobuf.message import DecodeError

from actors.runtime.backends.hollow import HollowDriver
from actors.runtime.backends.process_backend import ProcessDriver
from actors.runtime.backends.procfs import boot_id, kill_process, kill_session
from actors.runtime.backends.shim_link import connect, read_exit, read_started
from actors.runtime.images.store import ImageStore
from actors.runtime.model.containers import Container, ContainerRecord, Sandbox, SandboxRecord, State
from actors.runtime.model.errors import InvalidRequest, NameReserved
from actors.runtime.model.pods import Clock, Pods, Reservations, container_key, sandbox_key
from actors.runtime.spec import command
from actors.runtime.state.directory import StateDirectory
from protocols.wire import cri_pb2 as pb

_LOG = logging.getLogger("runtime")


class Adoption:
    def __init__(
        self,
        pods: Pods,
        state: StateDirectory,
        clock: Clock,
        processes: ProcessDriver,
        hollow: HollowDriver,
        images: ImageStore,
    ) -> None:
        self._pods = pods
        self._state = state
        self._clock = clock
        self._processes = processes
        self._hollow = hollow
        self._images = images
        self._boot = boot_id()

    async def run(self) -> None:
        sandboxes, containers = await asyncio.to_thread(self._load)
        for sandbox in sandboxes:
            self._add_sandbox(sandbox)
        for container in containers:
            self._add_container(container)
        await asyncio.gather(*(self._take_over(container) for container in list(self._pods.containers.values())))
        await asyncio.to_thread(self._sweep)

    def _load(self) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
        """Those in use come first: of two with one name, as a restored backup may bring, the first is kept."""
        self._images.load()
        sandboxes, containers = self._state.load()
        in_use = {record.id for record in containers if self._runs(record.id)}
        owners = {record.sandbox_id for record in containers if record.id in in_use}
        sandboxes.sort(key=lambda record: (record.id not in owners, -record.created_at))
        containers.sort(key=lambda record: (record.id not in in_use, -record.life.created_at))
        return sandboxes, containers

    def _runs(self, container: str) -> bool:
        directory = self._state.shim(container)
        return read_started(directory) is not None and read_exit(directory) is None

    def _reserve(self, names: Reservations, key: str, kind: str, id: str) -> bool:
        try:
            names.reserve(key, id)
        except NameReserved:
            _LOG.error('%s %s has the name of another one, "%s", and was passed over', kind, id, key)
            return False
        return True

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
        if self._reserve(self._pods.sandbox_names, sandbox_key(sandbox.config.metadata), "sandbox", record.id):
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
        key = container_key(config.metadata, sandbox.config.metadata)
        if self._reserve(self._pods.container_names, key, "container", record.id):
            image = self._images.find(config.image.image) or self._images.find(config.image.user_specified_image)
            self._pods.add_container(Container(record, config, sandbox, script, image))

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
        self._processes.cgroups.sweep(self._pods.containers)

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
