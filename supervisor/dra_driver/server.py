"""The calls of a DRA driver. This is the part to copy for real devices."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc.aio

from protocols.errors import NodeplaneError
from protocols.sockets import answers, is_socket, private_sockets
from protocols.wire import drahealth_v1_pb2 as health_pb
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.dra import DRA_PLUGIN, GET_INFO, NOTIFY, PREPARE, UNPREPARE, WATCH_RESOURCES
from protocols.wire.methods import LIMITS, Method, Service
from supervisor.dra_driver.claims import Claims
from supervisor.dra_driver.health import HealthBoard
from supervisor.dra_driver.types import Device, DriverOptions
from supervisor.scripted.faults import Faults
from supervisor.scripted.playing import cut

Context = grpc.aio.ServicerContext[Any, Any]
STOP_GRACE = 0.5
HEALTH = {"Healthy": health_pb.HEALTHY, "Unhealthy": health_pb.UNHEALTHY}


class DriverServer:
    """`say` gets one line for everything that happens."""

    def __init__(
        self, options: DriverOptions, claims: Claims, board: HealthBoard, faults: Faults, say: Callable[[str], None]
    ) -> None:
        self._options = options
        self._claims = claims
        self._board = board
        self._faults = faults
        self._say = say
        self.registered = asyncio.Event()
        """The node took us in at least once."""
        self._ending = False
        self._round = 0
        """Grows when health streams are to end."""
        self._servers: dict[Path, grpc.aio.Server] = {}

    async def start(self) -> None:
        """The service first: the node dials it as soon as it has found the registration socket."""
        self._ending = False
        remove_dead(self._options)
        await self._listen(self._options.socket, self._service())
        await self._listen(self._options.registrar, [Service().unary(GET_INFO, self._info).unary(NOTIFY, self._told)])

    async def stop(self) -> None:
        """The registration goes first, so that no new call comes."""
        self._ending = True
        self._board.notify()
        for path in (self._options.registrar, self._options.socket):
            path.unlink(missing_ok=True)
        await asyncio.gather(*(server.stop(STOP_GRACE) for server in self._servers.values()))
        self._servers.clear()

    async def cut(self) -> None:
        """As kill -9 would: no last word, and the sockets are left behind."""
        self._ending = True
        for path, server in self._servers.items():
            await cut(server, path)
        self._servers.clear()

    def end_streams(self) -> None:
        """Every health stream ends in good order; the node may open it again."""
        self._round += 1
        self._board.notify()

    async def _listen(self, path: Path, services: list[Service]) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        server = grpc.aio.server(options=LIMITS)
        server.add_generic_rpc_handlers(tuple(service.handler() for service in services))
        with private_sockets():
            server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers[path] = server

    def _service(self) -> list[Service]:
        """Each version of the service under its own name; they differ in little."""
        services = [Service().unary(PREPARE[version], self._preparing(PREPARE[version])) for version in PREPARE]
        for service, version in zip(services, UNPREPARE, strict=True):
            service.unary(UNPREPARE[version], self._unpreparing(UNPREPARE[version]))
        return services + [Service().stream(method, self._watching(method)) for method in WATCH_RESOURCES.values()]

    async def _info(self, request: registration.InfoRequest, context: Context) -> registration.PluginInfo:
        await self._faults.meet(GET_INFO.name, context)
        return self._described()

    def _described(self) -> registration.PluginInfo:
        """Who we are. The node uses the first version of the list that it knows."""
        return registration.PluginInfo(
            type=DRA_PLUGIN,
            name=self._options.driver,
            endpoint=str(self._options.socket),
            supported_versions=[*PREPARE, *WATCH_RESOURCES],
        )

    async def _told(self, request: registration.RegistrationStatus, context: Context) -> Any:
        await self._faults.meet(NOTIFY.name, context)
        if request.plugin_registered:
            self.registered.set()
            self._say(f"registered {self._options.driver} with {len(self._board.devices)} devices")
        else:
            self._say(f"registration refused: {request.error}")
        return registration.RegistrationStatusResponse()

    def _preparing(self, method: Method[Any, Any]) -> Callable[[Any, Context], Any]:
        async def prepare(request: Any, context: Context) -> Any:
            """Before the first container of a pod. One claim that fails does not harm the others of the call."""
            await self._faults.meet(method.name, context)
            reply = method.reply()
            for claim in request.claims:
                await self._prepare(claim, reply.claims[claim.uid])
            return reply

        return prepare

    async def _prepare(self, claim: Any, answer: Any) -> None:
        try:
            prepared = await self._claims.prepare(claim.namespace, claim.name, claim.uid)
        except (NodeplaneError, OSError) as error:
            answer.error = str(error)
            self._say(f"claim {claim.namespace}/{claim.name} not prepared: {error}")
            return
        for item in prepared:
            device = answer.devices.add(
                request_names=[item.request],
                pool_name=self._options.node,
                device_name=item.device,
                cdi_device_ids=[item.cdi],
            )
            if item.share_id and "share_id" in device.DESCRIPTOR.fields_by_name:
                device.share_id = item.share_id
        names = ", ".join(item.device for item in prepared) or "nothing"
        self._say(f"prepared {names} for claim {claim.namespace}/{claim.name}")

    def _unpreparing(self, method: Method[Any, Any]) -> Callable[[Any, Context], Any]:
        async def unprepare(request: Any, context: Context) -> Any:
            """After the last container of the last pod. The claim may have left the API already."""
            await self._faults.meet(method.name, context)
            reply = method.reply()
            for claim in request.claims:
                reply.claims[claim.uid].error = ""
                await asyncio.to_thread(self._claims.unprepare, claim.uid)
                self._say(f"unprepared claim {claim.namespace}/{claim.name}")
            return reply

        return unprepare

    def _watching(self, method: Method[Any, Any]) -> Callable[[Any, Context], AsyncIterator[Any]]:
        async def watch(request: Any, context: Context) -> AsyncIterator[Any]:
            """The whole list at once, at each change, and often enough that the node does not take us for dead."""
            mine = self._round
            while not self._ending and mine == self._round:
                await self._faults.meet(method.name, context)
                if not self._board.silent:
                    reply = method.reply()
                    for device in self._board.devices:
                        self._describe(device, reply.devices.add())
                    yield reply
                await self._board.changed(self._options.health_timeout / 3)

        return watch

    def _describe(self, device: Device, told: Any) -> None:
        health = self._board.of(device)
        told.device.pool_name, told.device.device_name = self._options.node, device.name
        told.health = HEALTH.get(health.health, health_pb.UNKNOWN)
        told.message = health.message
        told.health_check_timeout_seconds = self._options.health_timeout


def remove_dead(options: DriverOptions) -> None:
    """Sockets of drivers before us that were killed: the node would go on dialling them."""
    for folder, pattern in (
        (options.registrar.parent, f"{options.driver}-*-reg.sock"),
        (options.socket.parent, "dra-*"),
    ):
        for path in folder.glob(pattern):
            if is_socket(path) and not answers(path):
                path.unlink(missing_ok=True)
