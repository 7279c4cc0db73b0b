"""runtime: the embedded container runtime, so that a node runs pods without anything installed.

Serves CRI v1 on ROOT/runtime/runtime.sock and owns the sandboxes and containers under ROOT/runtime. Containers are
plain Linux processes, or simulated.
On kill -9 open calls and event streams are lost, and nothing else: each container has a shim that runs on, and the next
runtime adopts it from the state directory.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.runtime.model.containers import ContainerState
from actors.runtime.rpc.image_service import ImageBusService
from actors.runtime.server import RuntimeOptions, RuntimeServer
from protocols.actor import Context, run_actor
from protocols.actor.metrics import labelled, single
from protocols.bus import Call
from protocols.messages.runtime import OWNER, STOP_CONTAINERS, Empty, StopContainers
from protocols.process.families import CounterFamily, GaugeFamily
from protocols.process.layout import SYSTEM_CDI, Layout
from protocols.process.settings import Settings


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

    def describe(self) -> Iterable[Metric]:
        return []


def main(argv: list[str] | None = None) -> None:
    run_actor(OWNER, Runtime, argv)


if __name__ == "__main__":
    main()
