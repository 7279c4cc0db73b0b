"""Operations on containers: the rules of CRI, whichever backend runs them."""

import asyncio
import os
import re
import signal

import msgspec

from actors.runtime.backends.hollow import HollowBackend
from actors.runtime.backends.process_backend import ProcessBackend
from actors.runtime.images.store import ImageStore
from actors.runtime.model.containers import (
    Container,
    ContainerBackend,
    ContainerRecord,
    ContainerState,
    DeviceNode,
    ExecResult,
    Image,
    Life,
    Sandbox,
)
from actors.runtime.model.errors import InvalidRequest, NotFound, ShuttingDown, StartFailed, StopTimedOut, WrongState
from actors.runtime.model.pods import Clock, RuntimePods, container_key, new_id, running_containers
from actors.runtime.operations.cdi_devices import CdiFiles, apply_devices, missing_nodes, requested_devices
from actors.runtime.operations.host_paths import MountPoints, ready_sources
from actors.runtime.spec import command
from actors.runtime.spec.users import shown_user
from actors.runtime.state.container_events import ContainerEvents
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import wait_ended
from protocols.process.beneath import LeadsOut, open_beneath, proc_path
from protocols.process.proc import boot_id
from protocols.wire import cri_pb2 as pb

_NAMES = {number: name.removeprefix("SIGNAL_") for name, number in pb.Signal.items()}


KILL_DEADLINE_S = 15.0
"""Time for a container to end after SIGKILL, before its shim is killed too."""


def stop_signal(signal_number: int, image_signal: str = "") -> int:
    """Return the kernel's number of a CRI signal (they are alphabetical), else the image's signal, else SIGTERM."""
    if signal_number == pb.SIGNAL_RUNTIME_DEFAULT and image_signal:
        return _named(image_signal)
    if pb.SIGNAL_SIGRTMIN <= signal_number <= pb.SIGNAL_SIGRTMAX:
        return min(int(signal.SIGRTMIN) + signal_number - pb.SIGNAL_SIGRTMIN, int(signal.SIGRTMAX))
    return int(getattr(signal, _NAMES.get(signal_number, ""), signal.SIGTERM))


def _named(text: str) -> int:
    """Parse a signal as images write it: `SIGQUIT`, `quit`, `3`, `SIGRTMIN+3`, `SIGRTMAX-1`."""
    name, *offset = re.split("([+-])", text.strip().upper(), maxsplit=1)
    if name.isdecimal():
        number = int(name[:9])
    else:
        number = int(getattr(signal, "SIG" + name.removeprefix("SIG"), 0))
        number += int("".join(offset)[:9]) if offset and offset[1].isdecimal() else 0
    return number if 0 < number <= int(signal.SIGRTMAX) else int(signal.SIGTERM)


class Dependencies(msgspec.Struct, frozen=True):
    """State and services that the operations share."""

    pods: RuntimePods
    state: StateDirectory
    events: ContainerEvents
    clock: Clock
    processes: ProcessBackend
    hollow: HollowBackend
    images: ImageStore
    cdi: CdiFiles
    mount_points: MountPoints


class Containers:
    """Create, start, stop, remove: each is on disk before it is answered."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._deps = dependencies
        self._boot = boot_id()
        self.shutting_down = False

    def backend(self, container: Container) -> ContainerBackend:
        return self._deps.processes if container.hollow is None else self._deps.hollow

    async def create(self, sandbox_id: str, config: pb.ContainerConfig) -> str:
        """Raises NotFound, InvalidRequest, CdiUnusable, WrongState, NameReserved, HostPathAway, StateNotWritten."""
        sandbox = self._deps.pods.sandbox(sandbox_id)
        image = self._deps.images.of(config.image)
        config = await asyncio.to_thread(resolve_images, config, self._deps.images) if config.mounts else config
        script = command.check(config, sandbox.config, image)
        if config.mounts and script is None:
            await ready_sources(config.mounts)
        _require_ready(sandbox)
        nodes: tuple[DeviceNode, ...] = ()
        if (devices := requested_devices(config)) and script is None:
            config, nodes = await self._with_cdi(config, devices, image, sandbox)
        user = () if script is not None else await asyncio.to_thread(shown_user, config.linux.security_context, image)
        key, id = container_key(config.metadata, sandbox.config.metadata), new_id()
        self._deps.pods.container_names.reserve(key, id)
        life = Life(created_at=self._deps.clock.next())
        data, of = config.SerializeToString(), image.id if image else ""
        record = ContainerRecord(id, sandbox.id, self._boot, data, life, nodes, user, of)
        container = Container(record, config, sandbox, script, image)
        try:
            await self._save(container.record, script is not None)
            _require_ready(sandbox)
            _require_images(container, self._deps.images)
        except BaseException:
            self._deps.pods.container_names.release(key)
            self._deps.state.forget(container.record)
            raise
        self._deps.pods.add_container(container)
        if config.mounts and script is None:
            async with container.writing:  # a removal waits, or its release would come first
                await asyncio.to_thread(self._deps.mount_points.claim, container)
        self._deps.events.emit(pb.CONTAINER_CREATED_EVENT, id, sandbox)
        return id

    async def start(self, id: str) -> None:
        """Raises NotFound, WrongState, ShuttingDown, StartFailed, StateNotWritten, InvalidRequest, LauncherGone."""
        container = self._deps.pods.container(id)
        self._require_startable(container)
        container.starting = asyncio.get_running_loop().create_future()
        try:
            await self.backend(container).start(container)
        except StartFailed as error:
            raise StartFailed(f'failed to start container "{container.id}": {error}') from None
        finally:
            container.starting.set_result(None)
            container.starting = None

    async def stop(self, id: str, timeout: float) -> None:
        """Send the stop signal, after `timeout` seconds SIGKILL, and wait for the end. An ended one is no error."""
        container = self._find(id)
        if container is None:
            return
        if container.starting is not None:
            await asyncio.wait([container.starting])
        if container.life.state is not ContainerState.RUNNING:
            return
        if timeout > 0:
            if not container.stop_sent:
                container.stop_sent = True
                self.backend(container).signal(container, _stop_signal(container))
            if await wait_ended(container, timeout):
                return
        await self._kill(container)

    async def remove(self, id: str) -> None:
        """Kill the container if it runs, then remove it. Raises WrongState during a start or another removal."""
        container = self._find(id)
        if container is None:
            return
        if container.starting is not None or container.removing:
            doing = "removed" if container.removing else "started"
            raise WrongState(f'container "{container.id}" is just being {doing}; try again')
        container.removing = True
        try:
            if container.life.state is ContainerState.RUNNING:
                await self._kill(container)
            async with container.writing:
                await self._erase(container)
        except BaseException:
            container.removing = False
            raise

    async def exec_sync(self, id: str, argv: list[str], timeout: float) -> ExecResult:
        container = self.find_running(id)
        if not argv:
            raise InvalidRequest("cmd is required")
        return await self.backend(container).exec_sync(container, argv, timeout)

    async def reopen_log(self, id: str) -> None:
        container = self.find_running(id)
        await self.backend(container).reopen_log(container)

    async def update(self, id: str, resources: pb.LinuxContainerResources) -> None:
        """Change limits; enforced at once where there are cgroups, and reported in any case.

        Raises WrongState, without any change, if the container uses more memory than the new limit.
        """
        container = self._deps.pods.container(id)
        async with container.writing:
            await self._update(container, resources)

    async def _update(self, container: Container, resources: pb.LinuxContainerResources) -> None:
        if container.life.state is ContainerState.EXITED or container.removing:
            raise WrongState(f'container "{container.id}" has ended')
        changed = pb.ContainerConfig.FromString(container.record.config)
        if resources.hugepage_limits:
            del changed.linux.resources.hugepage_limits[:]  # a merge would append to them
        changed.linux.resources.MergeFrom(resources)
        before = container.config
        await self._save_config(container, changed)
        if container.life.state is not ContainerState.RUNNING or container.hollow is not None:
            return
        if fault := self._deps.processes.update(container):
            await self._save_config(container, before)
            self._deps.processes.update(container)
            raise WrongState(f'container "{container.id}" is not limited so: {fault}')

    async def _save_config(self, container: Container, config: pb.ContainerConfig) -> None:
        fresh = msgspec.structs.replace(container.record, config=config.SerializeToString())
        await self._save(fresh, container.hollow is not None)
        container.record = msgspec.structs.replace(container.record, config=fresh.config)
        container.config = config

    async def stop_all(self, grace: float) -> None:
        """Reject further starts and stop every container."""
        self.shutting_down = True
        starting = [entry.starting for entry in self._deps.pods.containers.values() if entry.starting is not None]
        if starting:
            await asyncio.wait(starting)
        await asyncio.gather(
            *(self.stop(entry.id, grace) for entry in running_containers(self._deps.pods.containers.values()))
        )

    async def _with_cdi(
        self, config: pb.ContainerConfig, names: list[str], image: Image | None, sandbox: Sandbox
    ) -> tuple[pb.ContainerConfig, tuple[DeviceNode, ...]]:
        """Return the configuration with the CDI devices as described now; every start uses the same."""
        devices = await asyncio.to_thread(self._deps.cdi.find, names)
        nodes = await asyncio.to_thread(missing_nodes, devices)
        made = {node.path for node in nodes}
        changed = await asyncio.to_thread(apply_devices, config, devices, image is not None, made)
        command.check(changed, sandbox.config, image, nodes)
        return changed, nodes

    async def _save(self, record: ContainerRecord, hollow: bool) -> None:
        if hollow:
            self._deps.state.save_hollow(record)  # no sync, so it may run in the loop
        else:
            await asyncio.to_thread(self._deps.state.save, record)

    async def _kill(self, container: Container) -> None:
        self.backend(container).kill(container)
        if await wait_ended(container, KILL_DEADLINE_S):
            return
        self.backend(container).abandon(container)
        if not await wait_ended(container, KILL_DEADLINE_S):
            raise StopTimedOut(
                f'container "{container.id}" did not end after SIGKILL; a process may hang in the kernel'
            )

    async def _erase(self, container: Container) -> None:
        """Remove the record first: if a crash interrupts the removal, the next start cleans up the rest."""
        if container.hollow is not None:
            self._deps.state.forget(container.record)
        else:
            await asyncio.to_thread(self._deps.state.remove, container.record)
        self._deps.events.emit(pb.CONTAINER_DELETED_EVENT, container.id, container.sandbox)
        self._deps.pods.remove_container(container)
        await self.backend(container).forget(container)
        if container.config.mounts and container.hollow is None:
            await asyncio.to_thread(self._deps.mount_points.release, container)

    def _require_startable(self, container: Container) -> None:
        if self.shutting_down:
            raise ShuttingDown("the plane is going down and starts no containers")
        if container.life.state is not ContainerState.CREATED or container.starting is not None or container.removing:
            state = "starting" if container.starting is not None else container.life.state.name.lower()
            raise WrongState(f'container "{container.id}" is {state}; only a created one can be started')
        _require_ready(container.sandbox)

    def find_running(self, id: str) -> Container:
        """Raises NotFound, WrongState."""
        container = self._deps.pods.container(id)
        if container.life.state is not ContainerState.RUNNING:
            raise WrongState(f'container "{container.id}" is {container.life.state.name.lower()}, not running')
        return container

    def _find(self, id: str) -> Container | None:
        try:
            return self._deps.pods.container(id)
        except NotFound:
            return None


def _stop_signal(container: Container) -> int:
    return stop_signal(container.config.stop_signal, container.image.config.stop_signal if container.image else "")


def _require_ready(sandbox: Sandbox) -> None:
    if not sandbox.ready:
        raise WrongState(f'sandbox "{sandbox.id}" is not ready; run a new one')


def _require_images(container: Container, images: ImageStore) -> None:
    volumes = [mount.image.image for mount in container.config.mounts if mount.HasField("image")]
    for id in [container.image.id, *volumes] if container.image else volumes:
        if images.find(id) is None:
            raise NotFound(f'image "{id}" was removed while the container was created')


def resolve_images(config: pb.ContainerConfig, images: ImageStore) -> pb.ContainerConfig:
    """Return the configuration with a host path for every mount of an image. Raises NotFound, InvalidRequest."""
    if not any(mount.HasField("image") for mount in config.mounts):
        return config
    changed = pb.ContainerConfig()
    changed.CopyFrom(config)
    for mount in changed.mounts:
        if mount.HasField("image"):
            _resolve(mount, images)
    return changed


def _resolve(mount: pb.Mount, images: ImageStore) -> None:
    name = mount.image.user_specified_image or mount.image.image
    image = images.find(mount.image.image) or images.find(name)
    if image is None:
        raise NotFound(f'image "{name}" of the volume at {mount.container_path} was not imported')
    mount.host_path = _directory(image.root, mount.image_sub_path, name)
    mount.readonly = True
    mount.image.image, mount.image.user_specified_image = image.id, name


def _directory(root: str, sub_path: str, name: str) -> str:
    """Return the path of a part of an image, whose files never change."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(top, sub_path.lstrip("/"))
    except LeadsOut:
        raise InvalidRequest(f'image "{name}": image_sub_path "{sub_path}" leads out of it') from None
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise NotFound(f'image "{name}": image_sub_path "{sub_path}": {why}') from None
    finally:
        os.close(top)
    try:
        return os.readlink(proc_path(descriptor))
    finally:
        os.close(descriptor)
