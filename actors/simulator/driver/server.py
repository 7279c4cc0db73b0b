"""The calls of a DRA driver. `nodeplane new dra-driver` writes one to copy, which imports nothing of ours."""

import asyncio
from collections.abc import AsyncIterator, Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from actors.simulator.driver.claims import Claims
from actors.simulator.driver.health import HealthBoard
from actors.simulator.driver.options import CardDevice, DriverOptions
from actors.simulator.driver.script import ClaimAnswer, ClaimFault
from actors.simulator.engine.faults import Faults
from actors.simulator.engine.instances import remove_dead
from actors.simulator.engine.playback import cut, listen
from protocols.errors import NodeplaneError
from protocols.process.scripts import CallFault, StreamEnd
from protocols.process.tasks import wait_set
from protocols.wire import drahealth_v1_pb2 as health_pb
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.methods import LIMITS, Method, Service
from protocols.wire.plugins import (
    DRA_PLUGIN,
    GET_INFO,
    NODE_HEALTH,
    NOTIFY,
    PREPARE,
    UNPREPARE,
    WATCH_DEVICES_STATUS,
    WATCH_RESOURCES,
)

Context = grpc.aio.ServicerContext[Any, Any]
STOP_GRACE = 0.5
HEALTH = {"Healthy": health_pb.HEALTHY, "Unhealthy": health_pb.UNHEALTHY}
WELL, EACH = ClaimAnswer(), "$ID"


class DriverServer:
    """Serve registration, DRA and device health. `say` gets one line for everything that happens."""

    def __init__(
        self, options: DriverOptions, claims: Claims, board: HealthBoard, faults: Faults, say: Callable[[str], None]
    ) -> None:
        self._options = options
        self._claims = claims
        self._board = board
        self._faults = faults
        self._say = say
        self.registered = asyncio.Event()
        """Set once the node has accepted the registration."""
        self._ending = False
        self._round = 0
        """Incremented to end the open health streams."""
        self._end: bool | StreamEnd = True
        self._servers: dict[Path, grpc.aio.Server] = {}

    async def start(self) -> None:
        """Listen on the service first: the node connects to it once it finds the registration socket."""
        self._ending = False
        remove_dead(self._options.socket.parent, "dra-*")
        remove_dead(self._options.registrar.parent, f"{self._options.driver}-*-reg.sock")
        await self._listen(self._options.socket, self._service())
        await self._listen(
            self._options.registrar, [Service().unary(GET_INFO, self._info).unary(NOTIFY, self._notify_status)]
        )

    async def stop(self) -> None:
        """Remove the registration socket first, so that no new call arrives."""
        self._ending = True
        self._board.notify()
        for path in (self._options.registrar, self._options.socket):
            path.unlink(missing_ok=True)
        await asyncio.gather(*(server.stop(STOP_GRACE) for server in self._servers.values()))
        self._servers.clear()

    async def cut(self) -> None:
        """Close all connections and leave the sockets behind, as kill -9 does."""
        self._ending = True
        for path, server in self._servers.items():
            await cut(server, path)
        self._servers.clear()

    def end_streams(self, end: bool | StreamEnd = True) -> None:
        """End every health stream, with status OK or an error; the node may open it again."""
        self._round, self._end = self._round + 1, end
        self._board.notify()

    async def _listen(self, path: Path, services: list[Service]) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        server = grpc.aio.server(options=LIMITS)
        server.add_generic_rpc_handlers(tuple(service.handler() for service in services))
        await listen(server, path)
        self._servers[path] = server

    def _service(self) -> list[Service]:
        """Return a service per version of the API."""
        services = [Service().unary(PREPARE[version], self._preparing(PREPARE[version])) for version in PREPARE]
        for service, version in zip(services, UNPREPARE, strict=True):
            service.unary(UNPREPARE[version], self._unpreparing(UNPREPARE[version]))
        node_health = self._options.script.node_health or NODE_HEALTH in self._options.script.versions
        watches = [*WATCH_RESOURCES.values(), *([WATCH_DEVICES_STATUS] if node_health else [])]
        return services + [Service().stream(method, self._watching(method)) for method in watches]

    async def _info(self, request: registration.InfoRequest, context: Context) -> registration.PluginInfo:
        fault, info = await self._faults.meet(GET_INFO.name, context), self._described()
        for field, value in fault.info.items() if isinstance(fault, ClaimFault) else ():
            setattr(info, field, value)
        return info

    def _described(self) -> registration.PluginInfo:
        """Describe the driver. The node uses the first supported version that it knows."""
        return registration.PluginInfo(
            type=DRA_PLUGIN,
            name=self._options.driver,
            endpoint=str(self._options.socket),
            supported_versions=self._options.script.versions or [*PREPARE, *WATCH_RESOURCES],
        )

    async def _notify_status(self, request: registration.RegistrationStatus, context: Context) -> Any:
        await self._faults.meet(NOTIFY.name, context)
        if request.plugin_registered:
            self.registered.set()
            self._say(f"registered {self._options.driver} with {len(self._board.devices)} devices")
        else:
            self._say(f"registration refused: {request.error}")
        return registration.RegistrationStatusResponse()

    def _preparing(self, method: Method[Any, Any]) -> Callable[[Any, Context], Any]:
        async def prepare(request: Any, context: Context) -> Any:
            """Called before the first container of a pod starts. A claim that fails does not affect the others."""
            fault = await self._faults.meet(method.name, context)
            reply = method.reply()
            for claim in request.claims:
                answer = answer_for(fault, claim.name)
                if not self._failed(claim, answer, reply):
                    await self._prepare(claim, answer, reply.claims[claim.uid])
            return reply

        return prepare

    def _failed(self, claim: Any, answer: ClaimAnswer, reply: Any) -> bool:
        """Answer for a claim that fails by the script; return False for any other."""
        if answer.error:
            reply.claims[claim.uid].error = answer.error
        if answer.error or answer.skip:
            self._say(f"claim {claim.namespace}/{claim.name} fails: {answer.error or 'it is left out'}")
        return bool(answer.error or answer.skip)

    async def _prepare(self, claim: Any, answer: ClaimAnswer, reply: Any) -> None:
        try:
            prepared = await self._claims.prepare(claim.namespace, claim.name, claim.uid)
        except (NodeplaneError, OSError) as error:
            reply.error = str(error)
            self._say(f"claim {claim.namespace}/{claim.name} not prepared: {error}")
            return
        for item in prepared[: answer.devices]:
            names = [item.cdi] if answer.cdi is None else [name.replace(EACH, item.device) for name in answer.cdi]
            device = reply.devices.add(
                request_names=[item.request],
                pool_name=self._options.node,
                device_name=item.device,
                cdi_device_ids=names,
            )
            if item.share_id and "share_id" in device.DESCRIPTOR.fields_by_name:
                device.share_id = item.share_id
        shown = ", ".join(item.device for item in prepared) or "nothing"
        self._say(f"prepared {shown} for claim {claim.namespace}/{claim.name}")

    def _unpreparing(self, method: Method[Any, Any]) -> Callable[[Any, Context], Any]:
        async def unprepare(request: Any, context: Context) -> Any:
            """Called after the last pod of a claim has ended. The claim may be deleted from the API already."""
            fault = await self._faults.meet(method.name, context)
            reply = method.reply()
            for claim in request.claims:
                if self._failed(claim, answer_for(fault, claim.name), reply):
                    continue
                reply.claims[claim.uid].error = ""
                await asyncio.to_thread(self._claims.unprepare, claim.uid)
                self._say(f"unprepared claim {claim.namespace}/{claim.name}")
            return reply

        return unprepare

    def _watching(self, method: Method[Any, Any]) -> Callable[[Any, Context], AsyncIterator[Any]]:
        async def watch(request: Any, context: Context) -> AsyncIterator[Any]:
            """Send the whole list now, on each change, and often enough to beat the health timeout."""
            mine = self._round
            while not self._ending and mine == self._round:
                change = self._board.change
                await self._faults.meet(method.name, context)
                if not self._board.silent:
                    reply = method.reply()
                    describe = self._describe_status if method is WATCH_DEVICES_STATUS else self._describe
                    for device in self._board.devices:
                        describe(device, reply.devices.add())
                    yield reply
                await wait_set(change, self._options.script.health_timeout / 3)
            if isinstance(self._end, StreamEnd) and not self._ending:
                await context.abort(getattr(grpc.StatusCode, self._end.code), self._end.error)

        return watch

    def _describe(self, device: CardDevice, report: Any) -> None:
        health = self._board.health_of(device)
        report.device.pool_name, report.device.device_name = self._options.node, device.name
        report.health = HEALTH.get(health.health, health_pb.UNKNOWN)
        report.message = health.message
        report.health_check_timeout_seconds = self._options.script.health_timeout

    def _describe_status(self, device: CardDevice, report: Any) -> None:
        """Describe a device for NodeHealth, whose reports do not expire."""
        health = self._board.health_of(device)
        report.pool_name, report.device_name = self._options.node, device.name
        report.health, report.message = health.health, health.message


def answer_for(fault: CallFault, name: str) -> ClaimAnswer:
    """Return the answer of a fault for a claim of this name."""
    claims = fault.claims if isinstance(fault, ClaimFault) else {}
    return next((answer for pattern, answer in claims.items() if fnmatchcase(name, pattern)), WELL)
