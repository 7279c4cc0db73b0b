"""The five calls of a device plugin. This is the part to copy for real devices."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from protocols.sockets import private_sockets
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from protocols.wire.methods import LIMITS, Service
from supervisor.plugin.devices import Devices
from supervisor.plugin.script import DeviceSpec
from supervisor.plugin.types import PluginOptions

Context = grpc.aio.ServicerContext[Any, Any]
STOP_GRACE = 0.5


class PluginServer:
    """Serves the devices of one resource on one socket. `say` gets one line for everything that happens."""

    def __init__(self, options: PluginOptions, devices: Devices, say: Callable[[str], None]) -> None:
        self._options = options
        self.devices = devices
        self._say = say
        self._changed = asyncio.Event()
        self._ending = False
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen, on a new socket if there was one before: a node that starts removes every plugin's socket."""
        await self.stop()
        self._ending = False
        self._server = grpc.aio.server(options=LIMITS)
        self._server.add_generic_rpc_handlers((self._service().handler(),))
        with private_sockets():
            self._server.add_insecure_port(f"unix:{self._options.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """End our lists in good order, then the server; a new one on the same path may only start after that."""
        if self._server is not None:
            self._ending = True
            self._notify()
            await self._server.stop(STOP_GRACE)
            self._server = None
        self._options.socket.unlink(missing_ok=True)

    def set_health(self, health: dict[str, str]) -> None:
        """Devices not named are healthy. Every open ListAndWatch sends the new list."""
        self.changed(self.devices.set_all(health))

    def changed(self, lines: list[str]) -> None:
        """Say what changed; with nothing changed nothing is sent."""
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
        """Asked while our own Register call still waits: so serve first, then register."""
        return pb.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=False)

    async def _list_and_watch(self, request: pb.Empty, context: Context) -> AsyncIterator[pb.ListAndWatchResponse]:
        """The whole list now, and again on each change. When this ends, the node counts our devices as gone."""
        while not self._ending:
            changed = self._changed
            yield self._list()
            await changed.wait()

    async def _allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:
        """What a container needs to use the devices. Must not have lasting effects: a pod may still be refused."""
        answers = [self._answer(list(wanted.devices_ids)) for wanted in request.container_requests]
        return pb.AllocateResponse(container_responses=answers)

    def _answer(self, ids: list[str]) -> pb.ContainerAllocateResponse:
        self._say(f"allocated {', '.join(ids)}")
        return pb.ContainerAllocateResponse(envs={self._options.variable: ",".join(ids)})

    async def _pre_start(self, request: pb.PreStartContainerRequest, context: Context) -> pb.PreStartContainerResponse:
        """Before each start of a container, if our options ask for it: the place to reset a device."""
        return pb.PreStartContainerResponse()

    async def _get_preferred(
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        """Which of the free devices go well together; only called if our options offer it."""
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
