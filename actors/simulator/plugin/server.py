"""The five calls of a device plugin. `nodeplane new plugin` writes one to copy, which imports nothing of ours."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from actors.simulator.engine.instances import remove_dead
from actors.simulator.engine.playback import listen
from actors.simulator.plugin.devices import PluginDevices
from actors.simulator.plugin.script import DeviceSpec
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import LIMITS, Service
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START

Context = grpc.aio.ServicerContext[Any, Any]
STOP_GRACE = 0.5


@dataclass(frozen=True)
class PluginOptions:
    """Resource of a plugin and its place on the node."""

    resource: str
    """DOMAIN/NAME, e.g. example.com/gpu; devices are called after NAME."""
    directory: Path
    """The device-plugins directory of the node: kubelet.sock is there, and our own socket."""
    health_file: Path | None = None
    """Lines `DEVICE HEALTH`; read again on each change."""
    instance: str = "0"
    """Distinguishes the sockets of plugins that run side by side, as during an update."""

    @property
    def name(self) -> str:
        return self.resource.rpartition("/")[2]

    @property
    def variable(self) -> str:
        """The environment variable a container finds its devices in: EXAMPLE_COM_GPU."""
        return re.sub(r"[^A-Z0-9]", "_", self.resource.upper())

    @property
    def endpoint(self) -> str:
        """Name of our socket."""
        return f"{self.stem}-{self.instance}.sock"

    @property
    def stem(self) -> str:
        """Begin of the names of all instances' sockets."""
        return re.sub(r"[^A-Za-z0-9.]", "-", self.resource)[:40]

    @property
    def socket(self) -> Path:
        return self.directory / self.endpoint

    @property
    def kubelet_socket(self) -> Path:
        return self.directory / "kubelet.sock"


class PluginServer:
    """Serve the devices of one resource on one socket. `say` gets one line for everything that happens."""

    def __init__(self, options: PluginOptions, devices: PluginDevices, say: Callable[[str], None]) -> None:
        self._options = options
        self.devices = devices
        self._say = say
        self._changed = asyncio.Event()
        self._ending = False
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen on a new socket: a node that starts removes the sockets of all plugins."""
        await self.stop()
        self._ending = False
        remove_dead(self._options.directory, f"{self._options.stem}-*.sock")
        self._server = grpc.aio.server(options=LIMITS)
        self._server.add_generic_rpc_handlers((self._service().handler(),))
        await listen(self._server, self._options.socket)

    async def stop(self) -> None:
        """End the open lists, then the server; only then may another server start on the same path."""
        self._options.socket.unlink(missing_ok=True)
        if self._server is not None:
            self._ending = True
            self._notify()
            await self._server.stop(STOP_GRACE)
            self._server = None

    def set_health(self, health: dict[str, str]) -> None:
        """Set the health of every device; those not named are healthy. Every open ListAndWatch sends the new list."""
        self.changed(self.devices.set_all(health))

    def changed(self, lines: list[str]) -> None:
        """Log the changes and send new lists; without changes nothing is sent."""
        for line in lines:
            self._say(line)
        if lines:
            self._notify()

    def _notify(self) -> None:
        """Wake every open ListAndWatch, once."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _service(self) -> Service:
        service = Service().unary(GET_OPTIONS, self._get_options).stream(LIST_AND_WATCH, self._list_and_watch)
        service.unary(ALLOCATE, self._allocate).unary(PRE_START, self._pre_start)
        return service.unary(GET_PREFERRED, self._get_preferred)

    async def _get_options(self, request: pb.Empty, context: Context) -> pb.DevicePluginOptions:
        """Answer with our options; kubelet asks while our Register call still waits, so serve before registering."""
        return pb.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=False)

    async def _list_and_watch(self, request: pb.Empty, context: Context) -> AsyncIterator[pb.ListAndWatchResponse]:
        """Send the whole list now and on each change. When this ends, the node counts our devices as gone."""
        while not self._ending:
            changed = self._changed
            yield self._list()
            await changed.wait()

    async def _allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:
        """Return what a container needs to use the devices, without lasting effects: the pod may still be rejected."""
        for id in (id for wanted in request.container_requests for id in wanted.devices_ids):
            if id not in self.devices.health:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no device {id}")
        answers = [self._answer(list(wanted.devices_ids)) for wanted in request.container_requests]
        return pb.AllocateResponse(container_responses=answers)

    def _answer(self, ids: list[str]) -> pb.ContainerAllocateResponse:
        self._say(f"allocated {', '.join(ids)}")
        return pb.ContainerAllocateResponse(envs={self._options.variable: ",".join(ids)})

    async def _pre_start(self, request: pb.PreStartContainerRequest, context: Context) -> pb.PreStartContainerResponse:
        """Reset a device here: kubelet calls it before each start of a container if our options require it."""
        return pb.PreStartContainerResponse()

    async def _get_preferred(
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        """Choose free devices that go well together; called only if our options offer it."""
        answers = [
            pb.ContainerPreferredAllocationResponse(deviceIDs=wanted.available_deviceIDs[: wanted.allocation_size])
            for wanted in request.container_requests
        ]
        return pb.PreferredAllocationResponse(container_responses=answers)

    def _list(self) -> pb.ListAndWatchResponse:
        return pb.ListAndWatchResponse(devices=[self._device(spec) for spec in self.devices.specs()])

    def _device(self, spec: DeviceSpec) -> pb.Device:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in spec.nodes]) if spec.nodes else None
        return pb.Device(ID=spec.id, health=self.devices.health[spec.id], topology=topology)
