"""Records on disk, sandboxes, containers and images in memory, and the interface of a backend."""

import asyncio
import enum
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from protocols.lifecycle.pods.hollow import HollowScript
from protocols.wire import cri_pb2 as pb


class ContainerState(enum.Enum):
    """State in a container's life; the numbers stand in records on disk."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2


class Life(msgspec.Struct, frozen=True):
    """Lifecycle times of a container in ns, 0 = not yet. Its state is derived from them."""

    created_at: int
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def state(self) -> ContainerState:
        if self.finished_at:
            return ContainerState.EXITED
        return ContainerState.RUNNING if self.started_at else ContainerState.CREATED


class ImageConfig(msgspec.Struct, frozen=True):
    """Supported part of an OCI image configuration: defaults for containers of the image."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """NAME=VALUE."""
    working_dir: str = ""
    user: str = ""
    """`user` or `user:group`, by name or number."""
    stop_signal: str = ""


class Image(msgspec.Struct, frozen=True):
    """Content of images/ID/image.json."""

    id: str
    """`sha256:` and 64 hex digits: of the configuration, or of a directory's path."""
    names: tuple[str, ...]
    """Full names, as docker.io/library/busybox:latest."""
    root: str
    """Directory with the files."""
    size: int
    """Bytes of the files."""
    config: ImageConfig


class Holder(msgspec.Struct, frozen=True):
    """Process that holds namespaces of a pod, as the pause process of other runtimes."""

    pid: int
    ticks: int
    """Start time in clock ticks: a reused pid has another one."""
    ipc: bool = False
    """It has an IPC namespace, too."""


class SandboxRecord(msgspec.Struct, frozen=True):
    """Content of sandboxes/ID.json."""

    id: str
    created_at: int
    boot: str
    """Boot id of the machine: processes of an earlier boot are gone."""
    config: bytes
    """Serialized runtime.v1.PodSandboxConfig."""
    handler: str = ""
    stopped_at: int = 0
    holder: Holder | None = None
    """Process that holds the pod's namespaces; None while no container needs any."""


class DeviceNode(msgspec.Struct, frozen=True):
    """Device node that the host lacks; fields of shim.mounts.MissingDevice."""

    path: str
    kind: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0


class ContainerRecord(msgspec.Struct, frozen=True):
    """Content of containers/ID.json. While a shim exists its files are newer than `life`."""

    id: str
    sandbox_id: str
    boot: str
    config: bytes
    """Serialized runtime.v1.ContainerConfig."""
    life: Life
    nodes: tuple[DeviceNode, ...] = ()
    """Device nodes of its CDI devices that the host lacks."""
    user: tuple[int, ...] = ()
    """User, group and all groups of its first process; empty if it is simulated."""
    image: str | None = None
    """Id of its imported image; empty: the host's own files, None in a record of an earlier version."""


class Sandbox(msgspec.Struct, eq=False):
    """One sandbox in memory: its record on disk, and what is decoded from it."""

    record: SandboxRecord
    config: pb.PodSandboxConfig
    containers: dict[str, "Container"] = msgspec.field(default_factory=dict)
    stopping: bool = False
    """True while it is stopped: no container is created or started."""
    writing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while its file is written or removed by a thread: a removal comes after all writes."""
    encoded_status: tuple[SandboxRecord, bytes] | None = None
    """Cached status as a field of an event, and the record it was encoded from."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def ready(self) -> bool:
        return self.record.stopped_at == 0 and not self.stopping


class Container(msgspec.Struct, eq=False):
    """One container in memory: its record on disk, what is decoded from it, and waits for it."""

    record: ContainerRecord
    config: pb.ContainerConfig
    sandbox: Sandbox
    hollow: HollowScript | None = None
    image: Image | None = None
    """Imported image; None: the host's own files."""
    starting: "asyncio.Future[None] | None" = None
    """Done when the pending start has succeeded or failed."""
    removing: bool = False
    """True from the begin of a removal on, unless it fails."""
    writing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while its file is written or removed: a removal comes after all writes."""
    stop_sent: bool = False
    ended: asyncio.Event | None = None
    """Created by the first waiter: most containers have none."""
    encoded_status: tuple[ContainerRecord, bytes] | None = None
    """Cached status as a field of an event, and the record it was encoded from."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def life(self) -> Life:
        return self.record.life

    @property
    def log_path(self) -> str:
        """Absolute path of the log; empty without one."""
        directory, path = self.sandbox.config.log_directory, self.config.log_path
        return f"{directory.rstrip('/')}/{path}" if directory and path else ""


class ExecResult(msgspec.Struct):
    """Output and exit code of a command that ended."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class ContainerBackend(Protocol):
    """Interface of a way to run containers: as processes, or simulated."""

    async def start(self, container: Container) -> None:
        """Return once the container runs; raise StartFailed after its life has recorded the failure."""

    def signal(self, container: Container, number: int) -> None:
        """Send a signal to the container's first process."""

    def kill(self, container: Container) -> None:
        """Send SIGKILL to all processes of the container."""

    def abandon(self, container: Container) -> None:
        """Kill the shim too, as a last resort when a kill had no effect."""

    async def reopen_log(self, container: Container) -> None: ...

    async def exec_sync(self, container: Container, command: list[str], timeout: float) -> ExecResult:
        """Run a command in the container; a timeout of 0 means none."""

    def start_exec(
        self, container: Container, command: list[str], ends: tuple[int, int, int], terminal: bool
    ) -> "AbstractAsyncContextManager[asyncio.Future[int]]":
        """Run a command on these descriptors, with the future of its exit code; leaving the context kills it."""

    def attach(self, container: Container, outputs: tuple[int, int]) -> AbstractAsyncContextManager[int]:
        """Copy output to `outputs` too, with the descriptor of its input (for the caller to close) or -1."""

    def close_input(self, container: Container) -> None:
        """Close the container's stdin."""

    async def forget(self, container: Container) -> None:
        """Remove what the backend holds for an ended container."""
