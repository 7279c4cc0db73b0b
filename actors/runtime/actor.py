"""runtime: the embedded container runtime, so that a node runs pods without anything installed.

Serves CRI v1 on ROOT/runtime/runtime.sock and owns the sandboxes and containers under ROOT/runtime. Containers are
plain Linux processes, or simulated.
On kill -9 open calls and event streams are lost, and nothing else: each container has a shim that runs on, and the next
runtime adopts it from the state directory.
"""

import asyncio
import ipaddress
import os
import resource
import socket
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.runtime.backends.hollow import HollowBackend
from actors.runtime.backends.launcher import LauncherHandle
from actors.runtime.backends.process_backend import ProcessBackend
from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.images.store import ImageStore
from actors.runtime.model.containers import ContainerState
from actors.runtime.model.errors import SocketTaken
from actors.runtime.model.pods import Clock, RuntimePods
from actors.runtime.operations.adoption import Adoption
from actors.runtime.operations.cdi_devices import CdiFiles
from actors.runtime.operations.containers import Containers, Dependencies
from actors.runtime.operations.host_paths import MountPoints
from actors.runtime.operations.sandboxes import Sandboxes
from actors.runtime.rpc.dispatch import failure_of, methods_of
from actors.runtime.rpc.image_service import ImageBusService, ImageMethods
from actors.runtime.rpc.runtime_service import ContainerMethods, EventMethods, InfoMethods, SandboxMethods
from actors.runtime.rpc.stats_service import StatsMethods
from actors.runtime.rpc.streaming_service import StreamMethods
from actors.runtime.state.container_events import ContainerEvents
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle
from protocols.actor import Context, run_actor
from protocols.actor.metrics import labelled, single
from protocols.bus import Call
from protocols.http2.server import GrpcServer, GrpcServerOptions
from protocols.messages.runtime import OWNER, STOP_CONTAINERS, Empty, StopContainers
from protocols.process.families import CounterFamily, GaugeFamily
from protocols.process.layout import SYSTEM_CDI, Layout
from protocols.process.settings import Settings
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


class Runtime:
    """The actor around RuntimeServer: metrics, images and stop on the bus."""

    def __init__(self, context: Context) -> None:
        self._context = context
        layout = context.layout
        only = context.settings.images == "imported"
        options = RuntimeOptions(
            layout.runtime,
            layout.runtime_socket,
            imported_only=only,
            cdi=(*SYSTEM_CDI, layout.cdi),
            private_ports=partial(plane_ports, context.settings, layout),
        )
        self._server = RuntimeServer(options)

    async def start(self) -> None:
        await self._server.start()
        self._context.registry.register(_RuntimeCollector(self._server))
        self._context.bus.serve(STOP_CONTAINERS, StopContainers, self._stop_containers)
        ImageBusService(self._server.images, self._server.pods).serve(self._context.bus)
        taken = f"{len(self._server.pods.containers)} containers taken over"
        self._context.ready(f"{taken}; {self._server.cgroups.describe()}")

    async def stop(self) -> None:
        await self._server.stop()

    async def _stop_containers(self, request: StopContainers, call: Call) -> Empty:
        await self._server.sandboxes.stop_all(request.grace_s)
        return Empty()


def plane_ports(settings: Settings, layout: Layout) -> frozenset[int]:
    """Return the loopback ports of store, API and node endpoint known now; port-forward rejects them.

    Pods share the host's network, so 127.0.0.1 is the plane's loopback too. Each port is protected by authentication;
    this is a second line of defence. The metrics port is not among them: it is open to every process by design.
    Blocks for the read of three small files.
    """
    files = (layout.run / "node-endpoint.port", *(root / "run" / "store.addr" for root in (layout.root, layout.plane)))
    ports = {_port(path) for path in files}
    if _is_here(settings.api_url):
        ports.add(settings.port)
    return frozenset(ports - {0})


def _port(path: Path) -> int:
    """Return the port at the end of a file's text; 0 if there is none."""
    with suppress(OSError, ValueError):
        return int(path.read_text().rpartition(":")[2])
    return 0


def _is_here(url: str) -> bool:
    """True for an API on this machine's loopback; the port of an API elsewhere is free for pods here."""
    with suppress(ValueError):
        return ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback
    return True


CONTAINERS = GaugeFamily(
    "nodeplane_runtime_containers",
    "Containers of the embedded runtime; kind is process, or hollow for one that runs nothing.",
    ("state", "kind"),
)
SANDBOXES = GaugeFamily("nodeplane_runtime_sandboxes", "Pod sandboxes of the embedded runtime.")
EVENTS = CounterFamily(
    "nodeplane_runtime_container_events_total", "Container events emitted, with or without a subscriber."
)
SLOW_SUBSCRIBERS = CounterFamily(
    "nodeplane_runtime_slow_subscribers_total", "Event streams ended because their client read too slowly."
)


class _RuntimeCollector(Collector):
    def __init__(self, server: RuntimeServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        containers = labelled(CONTAINERS)
        entries = self._server.pods.containers.values()
        counts = Counter((entry.life.state, entry.hollow is not None) for entry in entries)
        for state in ContainerState:
            for hollow in (False, True):
                containers.add_metric([state.name.lower(), "hollow" if hollow else "process"], counts[state, hollow])
        yield containers
        yield single(SANDBOXES, len(self._server.pods.sandboxes))
        yield single(EVENTS, self._server.events.emitted)
        yield single(SLOW_SUBSCRIBERS, self._server.events.overflows)


def main(argv: list[str] | None = None) -> None:
    run_actor(OWNER, Runtime, argv)


if __name__ == "__main__":
    main()
