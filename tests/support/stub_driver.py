"""A DRA driver in the test's own process, whose every answer the test decides, and which counts its calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import drahealth_v1_pb2 as health
from protocols.wire import nodehealth_v1alpha1_pb2 as node_health
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.methods import Method, Service
from protocols.wire.plugins import (
    DRA_PLUGIN,
    DRA_V1,
    GET_INFO,
    NODE_HEALTH,
    NOTIFY,
    PREPARE,
    UNPREPARE,
    WATCH_DEVICES_STATUS,
    WATCH_RESOURCES,
)


class StubDriver:
    """Registration and service on sockets of their own, or on one. `directory` is the node's kubelet directory."""

    def __init__(self, directory: Path, name: str = "gpu.example.com", instance: str = "") -> None:
        self.name = name
        self.socket = directory / "plugins" / name / f"dra{instance}.sock"
        self.registrar = directory / "plugins_registry" / f"{name}{instance}-reg.sock"
        self.info = registration.PluginInfo(
            type=DRA_PLUGIN, name=name, endpoint=str(self.socket), supported_versions=[DRA_V1]
        )
        self.calls: list[tuple[str, Any]] = []
        self.told: list[registration.RegistrationStatus] = []
        self.fail: dict[str, str] = {}
        """Method -> error text of the RPC."""
        self.claim_errors: dict[str, str] = {}
        """Claim uid -> error in the answer."""
        self.garbled: set[str] = set()
        """Wire names of the methods whose answers cannot be parsed."""
        self.devices: dict[str, list[v1.Device]] = {}
        """Claim uid -> devices; a claim not named here gets one of its own."""
        self.hang = asyncio.Event()
        self.hang.set()
        self.health: list[health.DeviceHealth] | None = None
        """None: the driver answers UNIMPLEMENTED."""
        self.statuses: list[node_health.Device] = []
        self.serves_statuses = False
        """NodeHealth is served though it is not advertised."""
        self.streams = 0
        self.version = DRA_V1
        self._changed = asyncio.Event()
        self._over = False
        self._servers: dict[Path, grpc.aio.Server] = {}

    async def start(self) -> "StubDriver":
        await self.serve()
        await self.register()
        return self

    async def serve(self) -> None:
        self._over = False
        await self._listen(self.socket, self._services())

    async def register(self) -> None:
        """The node finds the socket and asks."""
        await self._listen(self.registrar, [self._registration()])

    async def start_on_one_socket(self) -> "StubDriver":
        self.socket = self.registrar
        self.info.endpoint = str(self.registrar)
        await self._listen(self.registrar, [self._registration(), *self._services()])
        return self

    async def stop(self, deregister: bool = True) -> None:
        """`deregister` off: only the service goes, as of a driver whose registrar is another container."""
        self._over = True
        self.change()
        self.hang.set()
        ending = {path: server for path, server in self._servers.items() if deregister or path == self.socket}
        await asyncio.gather(*(server.stop(5.0) for server in ending.values()))
        for path in ending:
            del self._servers[path]
            path.unlink(missing_ok=True)

    def called(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    def uids(self, method: str) -> list[list[str]]:
        """Claims of each call."""
        return [sorted(claim.uid for claim in request.claims) for request in self.called(method)]

    def change(self) -> None:
        """Every open health stream sends the list that is true now."""
        self._changed.set()
        self._changed = asyncio.Event()

    def report(self, *devices: health.DeviceHealth) -> None:
        self.health = list(devices)
        self.change()

    async def _listen(self, path: Path, services: list[Service]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        server = grpc.aio.server(options=(("grpc.max_send_message_length", 64 << 20),))
        server.add_generic_rpc_handlers(tuple(service.handler() for service in services))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers[path] = server

    def _registration(self) -> Service:
        info = Service().unary(GET_INFO, self._get_info, self._encoder(GET_INFO))
        return info.unary(NOTIFY, self._notify, self._encoder(NOTIFY))

    def _services(self) -> list[Service]:
        prepare, unprepare = PREPARE[self.version], UNPREPARE[self.version]
        main = Service().unary(prepare, self._prepare, self._encoder(prepare))
        main.unary(unprepare, self._unprepare, self._encoder(unprepare))
        watches = [
            Service().stream(resource, self._watch, self._encoder(resource)) for resource in WATCH_RESOURCES.values()
        ]
        return [main, *watches, Service().stream(WATCH_DEVICES_STATUS, self._watch_statuses)]

    def _encoder(self, method: Method[Any, Any]) -> Callable[[Any], bytes]:
        return lambda reply: b"\xff\xff" if method.name in self.garbled else reply.SerializeToString()

    async def _note(self, method: str, request: Any, context: Any) -> None:
        self.calls.append((method, request))
        if method in self.fail:
            await context.abort(grpc.StatusCode.INTERNAL, self.fail[method])

    async def _get_info(self, request: Any, context: Any) -> registration.PluginInfo:
        await self._note("info", request, context)
        return self.info

    async def _notify(self, request: registration.RegistrationStatus, context: Any) -> Any:
        self.told.append(request)
        await self._note("notify", request, context)
        return registration.RegistrationStatusResponse()

    async def _prepare(self, request: Any, context: Any) -> Any:
        await self._note("prepare", request, context)
        await self.hang.wait()
        reply = PREPARE[self.version].reply()
        for claim in request.claims:
            answer = reply.claims[claim.uid]
            answer.error = self.claim_errors.get(claim.uid, "")
            if not answer.error:
                for device in self.devices.get(claim.uid, [prepared(self.name)]):
                    answer.devices.add().MergeFromString(device.SerializeToString())
        return reply

    async def _unprepare(self, request: Any, context: Any) -> Any:
        await self._note("unprepare", request, context)
        reply = UNPREPARE[self.version].reply()
        for claim in request.claims:
            reply.claims[claim.uid].error = self.claim_errors.get(claim.uid, "")
        return reply

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[health.NodeWatchResourcesResponse]:
        self.streams += 1
        if self.health is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health here")
        while not self._over:
            changed = self._changed
            yield health.NodeWatchResourcesResponse(devices=self.health or [])
            await changed.wait()

    async def _watch_statuses(self, request: Any, context: Any) -> AsyncIterator[node_health.DevicesStatusResponse]:
        if NODE_HEALTH not in self.info.supported_versions and not self.serves_statuses:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health here")
        self.streams += 1
        while not self._over:
            changed = self._changed
            yield node_health.DevicesStatusResponse(devices=self.statuses)
            await changed.wait()


def prepared(driver: str, device: str = "dev-0", pool: str = "n1", requests: tuple[str, ...] = ()) -> v1.Device:
    return v1.Device(
        request_names=requests, pool_name=pool, device_name=device, cdi_device_ids=[f"{driver}/device={device}"]
    )


def told_health(device: str, health_value: int = health.HEALTHY, **more: Any) -> health.DeviceHealth:
    """What a driver says of one device of pool n1."""
    identity = health.DeviceIdentifier(pool_name=more.pop("pool", "n1"), device_name=device)
    return health.DeviceHealth(device=identity, health=health_value, **more)  # type: ignore[arg-type]  # also numbers of the future
