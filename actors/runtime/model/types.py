"""The vocabulary: what is stored, what is held in memory, and what a way of running containers must offer."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from actors.runtime.model.images import Image
from actors.runtime.model.states import Life
from protocols.layout import SYSTEM_CDI
from protocols.wire import cri_pb2 as pb


class RuntimeOptions(msgspec.Struct, frozen=True):
    directory: Path
    """State directory, ROOT/runtime. Mode 0700."""
    socket: Path
    imported_only: bool = False
    """Images that were not imported do not exist; otherwise such names stand for the host's own files."""
    cdi: tuple[Path, ...] = SYSTEM_CDI
    """Directories of CDI files; later ones go before earlier ones."""
    events_ring: int = 4096
    """Events one subscriber may be behind before its stream ends."""
    private_ports: Callable[[], Collection[int]] = frozenset
    """Ports that port-forward refuses."""


class SandboxRecord(msgspec.Struct, frozen=True):
    """File sandboxes/ID.json."""

    id: str
    created_at: int
    boot: str
    """Boot id of the machine: processes of an earlier boot are gone."""
    config: bytes
    """Serialized runtime.v1.PodSandboxConfig."""
    handler: str = ""
    stopped_at: int = 0


class ContainerRecord(msgspec.Struct, frozen=True):
    """File containers/ID.json. While a shim exists its own files are later than `life`."""

    id: str
    sandbox_id: str
    boot: str
    config: bytes
    """Serialized runtime.v1.ContainerConfig."""
    life: Life


class Hollow(msgspec.Struct, frozen=True):
    """Script of a simulated container."""

    duration_ns: int = 0
    """0 = until it is stopped."""
    exit_code: int = 0
    starved: bool = False
    """It ends as if its memory had run out."""
    log: tuple[str, ...] = ()
    """Lines it writes as it starts."""


@dataclass(slots=True, eq=False)
class Sandbox:
    record: SandboxRecord
    config: pb.PodSandboxConfig
    containers: dict[str, "Container"] = field(default_factory=dict)
    stopping: bool = False
    """No container is created or started any more."""
    told: tuple[SandboxRecord, bytes] | None = None
    """Its status as a field of an event, as last encoded, and of which record."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def ready(self) -> bool:
        return self.record.stopped_at == 0 and not self.stopping


@dataclass(slots=True, eq=False)
class Container:
    record: ContainerRecord
    config: pb.ContainerConfig
    sandbox: Sandbox
    hollow: Hollow | None = None
    image: Image | None = None
    """The imported image it is made of; None: the host's own files."""
    starting: "asyncio.Future[None] | None" = None
    """Done when a start in flight has succeeded or failed."""
    removing: bool = False
    stop_sent: bool = False
    ended: asyncio.Event | None = None
    """Made by the first who waits: most containers have no waiter."""
    told: tuple[ContainerRecord, bytes] | None = None
    """Its status as a field of an event, as last encoded, and of which record."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def life(self) -> Life:
        return self.record.life

    @property
    def log_path(self) -> str:
        """Absolute path of the log; empty when the caller wants none."""
        directory, path = self.sandbox.config.log_directory, self.config.log_path
        return f"{directory.rstrip('/')}/{path}" if directory and path else ""


@dataclass(slots=True)
class ExecResult:
    stdout: bytes
    stderr: bytes
    exit_code: int


class Driver(Protocol):
    """A way to run containers: as processes, or simulated."""

    async def start(self, container: Container) -> None:
        """Returns once it runs; raises StartFailed after the life says so."""

    def signal(self, container: Container, number: int) -> None:
        """To the container's first process."""

    def kill(self, container: Container) -> None:
        """SIGKILL to its whole process set."""

    def abandon(self, container: Container) -> None:
        """Last resort when a kill had no effect: end the parent too."""

    async def reopen_log(self, container: Container) -> None: ...

    async def execute(self, container: Container, command: list[str], timeout: float) -> ExecResult:
        """Run a command beside the container; a timeout of 0 means none."""

    def running(
        self, container: Container, command: list[str], ends: tuple[int, int, int], terminal: bool
    ) -> "AbstractAsyncContextManager[asyncio.Future[int]]":
        """A command on these descriptors; gives the future of its exit code. Whoever leaves early kills it."""

    def attached(self, container: Container, outputs: tuple[int, int]) -> AbstractAsyncContextManager[int]:
        """Output goes to `outputs` as well; gives its input, the caller's to close, or -1."""

    def close_input(self, container: Container) -> None:
        """The container reads the end of its stdin."""

    async def forget(self, container: Container) -> None:
        """Remove what the driver keeps of an ended container."""
