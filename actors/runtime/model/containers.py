"""Records on disk, sandboxes, containers and images in memory, and the interface of a backend."""

import asyncio
import enum
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from protocols.wire import cri_pb2 as pb


class State(enum.Enum):
    CREATED = 0
    RUNNING = 1
    EXITED = 2


class Life(msgspec.Struct, frozen=True):
    """Times in ns, 0 = not yet. The state is derived from them, so it cannot contradict them."""

    created_at: int
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def state(self) -> State:
        if self.finished_at:
            return State.EXITED
        return State.RUNNING if self.started_at else State.CREATED


class ImageConfig(msgspec.Struct, frozen=True):
    """What an image says of the containers made of it; the part of an OCI image configuration that is honoured."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """NAME=VALUE."""
    working_dir: str = ""
    user: str = ""
    """Name or number, with a group behind a colon or not."""
    stop_signal: str = ""


class Image(msgspec.Struct, frozen=True):
    """File images/ID/image.json."""

    id: str
    """`sha256:` and 64 hex digits: of the configuration, or of a directory's path."""
    names: tuple[str, ...]
    """Full names, as docker.io/library/busybox:latest."""
    root: str
    """Directory with the files."""
    size: int
    """Bytes of the files."""
    config: ImageConfig
    borrowed: bool = False
    """`root` is somebody's directory, used in place: it is not removed with the image."""


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
