"""Assembly of the runtime, and its gRPC server on a unix socket."""

import asyncio
import os
import resource
import socket
import stat
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from actors.runtime.backends.hollow import HollowBackend
from actors.runtime.backends.launcher import LauncherHandle
from actors.runtime.backends.process_backend import ProcessBackend
from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.images.store import ImageStore
from actors.runtime.model.errors import SocketTaken
from actors.runtime.model.pods import Clock, RuntimePods
from actors.runtime.operations.adoption import Adoption
from actors.runtime.operations.cdi_devices import CdiFiles
from actors.runtime.operations.containers import Containers, Dependencies
from actors.runtime.operations.host_paths import MountPoints
from actors.runtime.operations.sandboxes import Sandboxes
from actors.runtime.rpc.dispatch import failure_of, methods_of
from actors.runtime.rpc.image_service import ImageMethods
from actors.runtime.rpc.runtime_service import ContainerMethods, EventMethods, InfoMethods, SandboxMethods
from actors.runtime.rpc.stats_service import StatsMethods
from actors.runtime.rpc.streaming_service import StreamMethods
from actors.runtime.state.container_events import ContainerEvents
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle
from protocols.http2.server import GrpcServer, GrpcServerOptions
from protocols.process.layout import SYSTEM_CDI
from protocols.wire import cri_pb2 as pb

MESSAGE_LIMIT = 16 * 1024 * 1024
CLOSE_GRACE_S = 0.2


class RuntimeOptions(msgspec.Struct, frozen=True):
    """Directories, socket and bounds of one runtime."""

    directory: Path
    """State directory, ROOT/runtime. Mode 0700."""
    socket: Path
    imported_only: bool = False
    """Only imported images exist; otherwise other names stand for the host's own files."""
    cdi: tuple[Path, ...] = SYSTEM_CDI
    """Directories of CDI files; later ones override earlier ones."""
    events_ring: int = 4096
    """Events one subscriber may be behind before its stream ends."""
    private_ports: Callable[[], Collection[int]] = frozenset
    """Returns the ports that port-forward rejects."""


class RuntimeServer:
    """Start it only under the lock of its bus name: two runtimes must not use one state directory."""

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._launcher = LauncherHandle()
        self.pods, self._clock = RuntimePods(), Clock()
        self.events = ContainerEvents(self._clock, options.events_ring)
        self.images = ImageStore(options.directory / "images", options.imported_only)
        self.cgroups = Cgroups(options.directory)
        lifecycle, state = Lifecycle(self.events), StateDirectory(options.directory)
        self._processes = ProcessBackend(lifecycle, state, self._launcher, self.cgroups)
        self._dependencies = Dependencies(
            pods=self.pods,
            state=state,
            events=self.events,
            clock=self._clock,
            processes=self._processes,
            hollow=HollowBackend(lifecycle, state),
            images=self.images,
            cdi=CdiFiles(options.cdi),
            mount_points=MountPoints(options.directory),
        )
        self.containers = Containers(self._dependencies)
        self.sandboxes = Sandboxes(self._dependencies, self.containers)
        self._streams = StreamMethods(self.pods, self.containers, options.private_ports)
        self._server: GrpcServer | None = None

    async def start(self) -> None:
        """Start serving. The launcher comes first: it forks, and this process has threads later."""
        self._launcher.start()
        _allow_descriptors()
        await Adoption(self._dependencies).run()
        self._server = self._make_server()
        await self._server.start(_bound(self._options.socket))

    async def stop(self) -> None:
        """Stop serving; containers run on."""
        await self._streams.close()
        if self._server is not None:
            await self._server.close(CLOSE_GRACE_S)
        self._processes.holders.close()
        self._options.socket.unlink(missing_ok=True)
        await asyncio.to_thread(self._launcher.close)
        self.cgroups.close()

    def _make_server(self) -> GrpcServer:
        services = pb.DESCRIPTOR.services_by_name
        images = [ImageMethods(self.pods, self.images, self._options.directory)]
        methods = methods_of(services["RuntimeService"], self._runtime_parts())
        methods |= methods_of(services["ImageService"], images)
        return GrpcServer(GrpcServerOptions(methods, failure_of, MESSAGE_LIMIT))

    def _runtime_parts(self) -> list[object]:
        return [
            InfoMethods(self.pods, self.cgroups, self.events),
            SandboxMethods(self.pods, self.sandboxes, self._clock),
            ContainerMethods(self.pods, self.containers, self._processes),
            StatsMethods(self.pods, self._processes, self._options.directory),
            EventMethods(self.events),
            self._streams,
        ]


def _allow_descriptors() -> None:
    """Allow a descriptor per running container. After the launcher's start, so that containers keep the default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _bound(path: Path) -> socket.socket:
    """Return a socket bound to `path`, with mode 0600; replaces a stale socket file. Raises SocketTaken."""
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise SocketTaken(f"cannot listen on {path}: {error.strerror or error}") from None
    finally:
        os.umask(mask)
    return listening


def _clear(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise SocketTaken(f"{path} exists and is no socket; move it away")
        path.unlink()
    except FileNotFoundError:
        return
