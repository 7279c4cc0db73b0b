"""Operations on containers: the rules of CRI, whichever backend runs them."""

import asyncio
import signal

import msgspec

from actors.runtime.backends.hollow import HollowDriver
from actors.runtime.backends.process_backend import ProcessDriver
from actors.runtime.backends.procfs import boot_id
from actors.runtime.images.store import ImageStore
from actors.runtime.model.containers import Container, ContainerRecord, Driver, ExecResult, Image, Life, Sandbox, State
from actors.runtime.model.errors import GoingDown, InvalidRequest, NotFound, StartFailed, StopTimedOut, WrongState
from actors.runtime.model.pods import Clock, Pods, container_key, new_id, running
from actors.runtime.operations.cdi_devices import CdiFiles, applied
from actors.runtime.spec import command
from actors.runtime.state.container_events import Events
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import wait_ended
from protocols.wire import cri_pb2 as pb

_NAMES = {number: name.removeprefix("SIGNAL_") for name, number in pb.Signal.items()}


def stop_signal(wanted: int, of_image: str = "") -> int:
    """The kernel's number; the image's own when none is configured; SIGTERM when that says nothing known either."""
    if wanted == pb.SIGNAL_RUNTIME_DEFAULT and of_image:
        return _named(of_image)
    if pb.SIGNAL_SIGRTMIN <= wanted <= pb.SIGNAL_SIGRTMAX:
        return min(int(signal.SIGRTMIN) + wanted - pb.SIGNAL_SIGRTMIN, int(signal.SIGRTMAX))
    return int(getattr(signal, _NAMES.get(wanted, ""), signal.SIGTERM))


def _named(text: str) -> int:
    """`SIGQUIT`, `quit`, `3`, `SIGRTMIN+3`: as images write it."""
    name, _, offset = text.strip().upper().partition("+")
    if name.isdecimal():
        number = int(name)
    else:
        number = int(getattr(signal, "SIG" + name.removeprefix("SIG"), 0)) + int(offset if offset.isdecimal() else 0)
    return number if 0 < number <= int(signal.SIGRTMAX) else int(signal.SIGTERM)


KILL_DEADLINE_S = 15.0
"""How long a container may take to end after SIGKILL, before its shim is killed as well."""


class Containers:
    def __init__(
        self,
        pods: Pods,
        state: StateDirectory,
        events: Events,
        clock: Clock,
        processes: ProcessDriver,
        hollow: HollowDriver,
        images: ImageStore,
        cdi: CdiFiles,
    ) -> None:
        self._cdi = cdi
        self._pods = pods
        self._state = state
        self._events = events
        self._clock = clock
        self._processes = processes
        self._hollow = hollow
        self._images = images
        self._boot = boot_id()
        self.going_down = False

    def driver(self, container: Container) -> Driver:
        return self._processes if container.hollow is None else self._hollow

    async def create(self, sandbox_id: str, config: pb.ContainerConfig) -> str:
        """Raises NotFound, InvalidRequest, CdiUnusable, WrongState, NameReserved, StateNotWritten."""
        sandbox = self._pods.sandbox(sandbox_id)
        image = self._images.of(config.image)
        script = command.check(config, sandbox.config, image)
        _require_ready(sandbox)
        if config.CDI_devices and script is None:
            config = await self._with_cdi(config, image, sandbox)
        key, id = container_key(config.metadata, sandbox.config.metadata), new_id()
        self._pods.container_names.reserve(key, id)
        life = Life(created_at=self._clock.next())
        record = ContainerRecord(id, sandbox.id, self._boot, config.SerializeToString(), life)
        container = Container(record, config, sandbox, script, image)
        try:
            await self._save(container.record, script is not None)
            _require_ready(sandbox)
        except BaseException:
            self._pods.container_names.release(key)
            self._state.forget(container.record)
            raise
        self._pods.add_container(container)
        self._events.emit(pb.CONTAINER_CREATED_EVENT, id, sandbox)
        return id

    async def start(self, wanted: str) -> None:
        """Raises NotFound, WrongState, GoingDown, StartFailed, StateNotWritten, InvalidRequest, LauncherGone."""
        container = self._pods.container(wanted)
        self._require_startable(container)
        container.starting = asyncio.get_running_loop().create_future()
        try:
            await self.driver(container).start(container)
        except StartFailed as error:
            raise StartFailed(f'failed to start container "{container.id}": {error}') from None
        finally:
            container.starting.set_result(None)
            container.starting = None

    async def stop(self, wanted: str, timeout: float) -> None:
        """Stop signal, `timeout` seconds, SIGKILL; returns when it has ended. Unknown or ended: nothing to do."""
        container = self._find(wanted)
        if container is None:
            return
        if container.starting is not None:
            await asyncio.wait([container.starting])
        if container.life.state is not State.RUNNING:
            return
        if timeout > 0:
            if not container.stop_sent:
                container.stop_sent = True
                self.driver(container).signal(container, _stop_signal(container))
            if await wait_ended(container, timeout):
                return
        await self._kill(container)

    async def remove(self, wanted: str) -> None:
        """Kill it if it runs, then forget it. Raises WrongState while a start or another removal is in progress."""
        container = self._find(wanted)
        if container is None:
            return
        if container.starting is not None or container.removing:
            doing = "removed" if container.removing else "started"
            raise WrongState(f'container "{container.id}" is just being {doing}; try again')
        container.removing = True
        try:
            if container.life.state is State.RUNNING:
                await self._kill(container)
            await self._erase(container)
        finally:
            container.removing = False

    async def execute(self, wanted: str, argv: list[str], timeout: float) -> ExecResult:
        container = self.find_running(wanted)
        if not argv:
            raise InvalidRequest("cmd is required")
        return await self.driver(container).execute(container, argv, timeout)

    async def reopen_log(self, wanted: str) -> None:
        container = self.find_running(wanted)
        await self.driver(container).reopen_log(container)

    async def update(self, wanted: str, resources: pb.LinuxContainerResources) -> None:
        """Enforced at once where there are cgroups, and reported in any case. Raises WrongState, and leaves everything
        as it is, when the container has more memory in use than it is to have."""
        container = self._pods.container(wanted)
        if container.life.state is State.EXITED:
            raise WrongState(f'container "{container.id}" has ended')
        changed = pb.ContainerConfig.FromString(container.record.config)
        changed.linux.resources.MergeFrom(resources)
        before = container.config
        await self._keep(container, changed)
        if container.life.state is not State.RUNNING or container.hollow is not None:
            return
        if fault := self._processes.update(container):
            await self._keep(container, before)
            self._processes.update(container)
            raise WrongState(f'container "{container.id}" is not limited so: {fault}')

    async def _keep(self, container: Container, config: pb.ContainerConfig) -> None:
        fresh = msgspec.structs.replace(container.record, config=config.SerializeToString())
        await self._save(fresh, container.hollow is not None)
        container.record = msgspec.structs.replace(container.record, config=fresh.config)
        container.config = config

    async def stop_all(self, grace: float) -> None:
        """No start is accepted any more, and every container is stopped."""
        self.going_down = True
        starting = [entry.starting for entry in self._pods.containers.values() if entry.starting is not None]
        if starting:
            await asyncio.wait(starting)
        await asyncio.gather(*(self.stop(entry.id, grace) for entry in running(self._pods.containers.values())))

    async def _with_cdi(self, config: pb.ContainerConfig, image: Image | None, sandbox: Sandbox) -> pb.ContainerConfig:
        """Its CDI devices as they are described now; each start of the container gets the same."""
        names = list(dict.fromkeys(device.name for device in config.CDI_devices))
        found = await asyncio.to_thread(self._cdi.find, names)
        changed = applied(config, found, own_root=image is not None)
        command.check(changed, sandbox.config, image)
        return changed

    async def _save(self, record: ContainerRecord, hollow: bool) -> None:
        if hollow:
            self._state.note(record)  # no sync, so nothing a loop would have to wait for
        else:
            await asyncio.to_thread(self._state.save, record)

    async def _kill(self, container: Container) -> None:
        self.driver(container).kill(container)
        if await wait_ended(container, KILL_DEADLINE_S):
            return
        self.driver(container).abandon(container)
        if not await wait_ended(container, KILL_DEADLINE_S):
            raise StopTimedOut(
                f'container "{container.id}" did not end after SIGKILL; a process may hang in the kernel'
            )

    async def _erase(self, container: Container) -> None:
        """The record goes first: what a crash leaves of the rest is cleaned at the next start."""
        if container.hollow is not None:
            self._state.forget(container.record)
        else:
            await asyncio.to_thread(self._state.remove, container.record)
        self._events.emit(pb.CONTAINER_DELETED_EVENT, container.id, container.sandbox)
        self._pods.drop_container(container)
        await self.driver(container).forget(container)

    def _require_startable(self, container: Container) -> None:
        if self.going_down:
            raise GoingDown("the plane is going down and starts no containers")
        if container.life.state is not State.CREATED or container.starting is not None or container.removing:
            state = "starting" if container.starting is not None else container.life.state.name.lower()
            raise WrongState(f'container "{container.id}" is {state}; only a created one can be started')
        _require_ready(container.sandbox)

    def find_running(self, wanted: str) -> Container:
        """Raises NotFound, WrongState."""
        container = self._pods.container(wanted)
        if container.life.state is not State.RUNNING:
            raise WrongState(f'container "{container.id}" is {container.life.state.name.lower()}, not running')
        return container

    def _find(self, wanted: str) -> Container | None:
        try:
            return self._pods.container(wanted)
        except NotFound:
            return None


def _stop_signal(container: Container) -> int:
    return stop_signal(container.config.stop_signal, container.image.config.stop_signal if container.image else "")


def _require_ready(sandbox: Sandbox) -> None:
    if not sandbox.ready:
        raise WrongState(f'sandbox "{sandbox.id}" is not ready; run a new one')
