"""Adoption after a restart: read the state from disk and take over running containers."""

import asyncio
import logging

import msgspec
from google.protobuf.message import DecodeError

from actors.runtime.backends.procfs import kill_process, kill_session
from actors.runtime.backends.shim_connection import connect, read_exit, read_started
from actors.runtime.model.containers import (
    Container,
    ContainerRecord,
    ContainerState,
    Image,
    ImageConfig,
    Sandbox,
    SandboxRecord,
)
from actors.runtime.model.errors import NameReserved
from actors.runtime.model.pods import Reservations, container_key, sandbox_key
from actors.runtime.operations.containers import Dependencies
from actors.runtime.spec import command
from protocols.lifecycle.errors import HollowInvalid
from protocols.process.proc import boot_id
from protocols.wire import cri_pb2 as pb

_LOG = logging.getLogger("runtime")


class Adoption:
    """Runs once, before the server listens."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._deps = dependencies
        self._boot = boot_id()

    async def run(self) -> None:
        sandboxes, containers = await asyncio.to_thread(self._load)
        for sandbox in sandboxes:
            self._add_sandbox(sandbox)
        for container in containers:
            self._add_container(container)
        await asyncio.gather(*(self._take_over(container) for container in list(self._deps.pods.containers.values())))
        await asyncio.to_thread(self._sweep)

    def _load(self) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
        """Read records, those in use first: of two with the same name (a restored backup) the first wins."""
        self._deps.images.load()
        sandboxes, containers = self._deps.state.load()
        in_use = {record.id for record in containers if self._runs(record.id)}
        owners = {record.sandbox_id for record in containers if record.id in in_use}
        sandboxes.sort(key=lambda record: (record.id not in owners, -record.created_at))
        containers.sort(key=lambda record: (record.id not in in_use, -record.life.created_at))
        return sandboxes, containers

    def _runs(self, container: str) -> bool:
        directory = self._deps.state.shim(container)
        return read_started(directory) is not None and read_exit(directory) is None

    def _reserve(self, names: Reservations, key: str, kind: str, id: str) -> bool:
        try:
            names.reserve(key, id)
        except NameReserved:
            _LOG.error('%s skipped: its name is in use id=%s name="%s"', kind, id, key)
            return False
        return True

    def _add_sandbox(self, record: SandboxRecord) -> None:
        """Add a sandbox; one of an earlier boot is stopped, since its processes are gone."""
        self._deps.clock.observe(max(record.created_at, record.stopped_at))
        if record.boot != self._boot and not record.stopped_at:
            record = msgspec.structs.replace(record, stopped_at=self._deps.clock.next())
        try:
            sandbox = Sandbox(record, pb.PodSandboxConfig.FromString(record.config))
        except DecodeError:
            _LOG.error("sandbox skipped: its configuration does not decode id=%s", record.id)
            return
        if self._reserve(self._deps.pods.sandbox_names, sandbox_key(sandbox.config.metadata), "sandbox", record.id):
            if not self._deps.processes.holders.adopt(sandbox):
                sandbox.record = msgspec.structs.replace(sandbox.record, stopped_at=self._deps.clock.next())
            self._deps.pods.add_sandbox(sandbox)

    def _add_container(self, record: ContainerRecord) -> None:
        self._deps.clock.observe(max(record.life.created_at, record.life.finished_at))
        sandbox = self._deps.pods.sandboxes.get(record.sandbox_id)
        try:
            config = pb.ContainerConfig.FromString(record.config)
            script = command.hollow_script(config, sandbox.config) if sandbox else None
        except (DecodeError, HollowInvalid):
            sandbox = None
        if sandbox is None:
            _LOG.error("container skipped: sandbox or configuration is missing or invalid id=%s", record.id)
            return
        key = container_key(config.metadata, sandbox.config.metadata)
        if self._reserve(self._deps.pods.container_names, key, "container", record.id):
            container = Container(record, config, sandbox, script, self._image(record, config))
            self._deps.pods.add_container(container)
            if config.mounts:
                self._deps.mount_points.claim(container)

    def _image(self, record: ContainerRecord, config: pb.ContainerConfig) -> Image | None:
        """Return the image that it was created with, whichever has its name now.

        One that is gone has no files: nothing of it may run on those of the host.
        """
        images = self._deps.images
        if record.image is None:
            return images.find(config.image.image) or images.find(config.image.user_specified_image)
        if not record.image:
            return None
        return images.find(record.image) or Image(record.image, (), "", 0, ImageConfig())

    async def _take_over(self, container: Container) -> None:
        if container.life.state is ContainerState.EXITED:
            return
        if container.hollow is not None:
            self._deps.hollow.adopt(container)
        else:
            await self._deps.processes.adopt(container)

    def _sweep(self) -> None:
        """End shims whose container is gone: the runtime was killed during the removal."""
        for id in self._deps.state.shims():
            if id not in self._deps.pods.containers:
                self._end_shim(id)
        self._deps.processes.cgroups.sweep(self._deps.pods.containers)
        self._deps.mount_points.sweep()

    def _end_shim(self, id: str) -> None:
        directory = self._deps.state.shim(id)
        connection, began = connect(directory), read_started(directory)
        if began is not None:
            kill_session(began.pid, began.ticks, began.boot)
        if connection is not None:
            with connection:
                connection.send(msgspec.json.encode({"op": "kill"}))
            if began is not None:
                kill_process(began.shim)
        self._deps.state.remove_shim(id)
