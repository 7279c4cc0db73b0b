"""A gRPC server behind an endpoint, with the standard health and reflection services."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio

from actors.frontdoor.serving.endpoint import Endpoint
from actors.frontdoor.serving.errors import TooManyWatchers
from actors.frontdoor.serving.quota import WatchQuota
from protocols.process.sockets import prepare_socket, private_sockets
from protocols.process.tasks import Tasks
from protocols.wire.methods import SERVER_LIMITS, Service, parsed_by_handler

HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"
"""Same wire format. It is served but not listed, since no descriptor of it is at hand."""

CHANNEL_OPTIONS = (
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_concurrent_streams", 1024),  # fewer: calls before the client has read this limit end with UNAVAILABLE
    # Beyond the first limit gRPC drops calls at random as CANCELLED, whosever; the default is 1000.
    ("grpc.server.max_pending_requests", 16384),
    ("grpc.server.max_pending_requests_hard_limit", 32768),
)
"""Clients may ping at any rate, so that a watch without events for days is not ended for it. The server never pings: a
unix socket reports when its other end is gone. Concurrent calls per connection are bounded."""

MAX_STREAMS, MAX_STREAMS_OF_CLIENT = 1024, 64
"""Open streams of health and reflection; clients over TCP count as one."""


class FrontdoorServer:
    """One gRPC server on a private socket; clients reach it through the endpoint's listener."""

    def __init__(self, endpoint: Endpoint, services: tuple[Service, ...], health_address: str = "") -> None:
        """`health_address` is the HOST:PORT of a second server with the health service alone; empty = none."""
        self._endpoint, self._services, self._health_address = endpoint, services, health_address
        self._standard = StandardServices((service.name for service in services), self._client_of)
        self._server = grpc.aio.server(options=(*SERVER_LIMITS, *CHANNEL_OPTIONS))
        handlers: Iterable[grpc.GenericRpcHandler] = (item.handler() for item in services)
        self._server.add_generic_rpc_handlers((*handlers, self._standard))
        self._health_server: grpc.aio.Server | None = None
        self.health_port = 0

    def _client_of(self, context: Any) -> str:
        return self._endpoint.listener.peer(context.peer() or "").client

    def set_serving(self, serving: bool) -> None:
        """Set the health of the services. The server itself ("") stays SERVING."""
        for service in self._services:
            self._standard.set_serving(service.name, serving)

    async def start(self) -> None:
        """Raises SocketInUse if another process serves the socket."""
        private = self._endpoint.socket.private
        prepare_socket(private)
        with private_sockets():
            self._server.add_insecure_port(f"unix:{private}")
        await self._server.start()
        await self._endpoint.listener.start()
        if self._health_address:
            await self._start_health_server()

    async def _start_health_server(self) -> None:
        self._health_server = grpc.aio.server(options=SERVER_LIMITS)
        self._health_server.add_generic_rpc_handlers((self._standard.only(HEALTH),))
        self.health_port = self._health_server.add_insecure_port(self._health_address)
        await self._health_server.start()

    async def stop(self, grace_s: float) -> None:
        self._endpoint.listener.stop_accepting()
        if self._health_server:
            await self._health_server.stop(0)
        await self._server.stop(grace_s)
        self._endpoint.listener.close()


class StandardServices(grpc.GenericRpcHandler):
    """Health and reflection of `services`.

    Their libraries are imported by the first call: most nodes never see one, and reflection alone costs 0.7 MB.
    """

    def __init__(self, services: Iterable[str], client_of: Callable[[Any], str]) -> None:
        """`client_of` returns the key by which the streams of a call's client are counted."""
        self._names, self._client_of = tuple(services), client_of
        self._quota = WatchQuota(MAX_STREAMS, MAX_STREAMS_OF_CLIENT)
        self._serving = dict.fromkeys(("", *self._names), True)
        self._health: Any = None
        self._tasks = Tasks()
        self._handlers: dict[str, Any] = {}
        self._factories: dict[str, Callable[[], Any]] = {
            HEALTH: self._make_health,
            REFLECTION: self._make_reflection,
            REFLECTION_V1: self._make_reflection_v1,
        }

    def only(self, name: str) -> "_SingleService":
        """Return a handler with one of the services."""
        return _SingleService(self, name)

    def set_serving(self, service: str, serving: bool) -> None:
        self._serving[service] = serving
        if self._health:
            self._tasks.start(self._health.set(service, _health_status(serving)), "health status", service)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        name = handler_call_details.method[1:].rpartition("/")[0]
        if name not in self._factories:
            return None
        if name not in self._handlers:
            self._handlers[name] = self._factories[name]()
        handler = self._handlers[name].service(handler_call_details)
        if handler is None:
            return None
        handler = parsed_by_handler(handler, handler_call_details.method.rpartition("/")[2])
        return self._bounded(handler) if handler.response_streaming else handler

    def _bounded(self, handler: Any) -> Any:
        """Return Watch of health, or reflection's stream, with a place in the quota for as long as it is open."""

        async def watch(raw: bytes, context: Any) -> None:
            async with self._place(context):
                await handler.unary_stream(raw, context)

        async def reflect(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with self._place(context), aclosing(handler.stream_stream(requests, context)) as replies:
                async for reply in replies:
                    yield reply

        encode: Any = handler.response_serializer
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(watch, None, encode)
        return grpc.stream_stream_rpc_method_handler(reflect, None, encode)

    @asynccontextmanager
    async def _place(self, context: Any) -> AsyncIterator[None]:
        client = self._client_of(context)
        try:
            self._quota.acquire(client)
        except TooManyWatchers as error:
            await context.abort(grpc.StatusCode[error.grpc], str(error))
        try:
            yield
        finally:
            self._quota.release(client)

    def _make_health(self) -> Any:
        from grpc_health.v1 import health, health_pb2_grpc

        self._health = health.aio.HealthServicer()
        for service, serving in self._serving.items():
            _run_now(self._health.set(service, _health_status(serving)))
        return _handler(health_pb2_grpc.add_HealthServicer_to_server, self._health)

    def _make_reflection(self) -> Any:
        from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

        servicer = reflection.aio.ReflectionServicer((*self._names, HEALTH, REFLECTION))
        return _handler(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, servicer)

    def _make_reflection_v1(self) -> Any:
        from grpc_reflection.v1alpha import reflection, reflection_pb2

        method = grpc.stream_stream_rpc_method_handler(
            reflection.aio.ReflectionServicer((*self._names, HEALTH, REFLECTION)).ServerReflectionInfo,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(REFLECTION_V1, {"ServerReflectionInfo": method})


class _SingleService(grpc.GenericRpcHandler):
    def __init__(self, services: StandardServices, name: str) -> None:
        self._services = services
        self._prefix = f"/{name}/"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        if not handler_call_details.method.startswith(self._prefix):
            return None
        return self._services.service(handler_call_details)


def _run_now(setting: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has nobody to wait for, since handlers are made in a synchronous callback of gRPC."""
    with suppress(StopIteration):
        setting.send(None)
        raise RuntimeError("the health service waits, although nobody watches it yet")


def _health_status(serving: bool) -> Any:
    from grpc_health.v1 import health_pb2

    return health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING


class _HandlerCollector:
    """Stand-in for a server: collects the handlers that generated code registers."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        self.handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Do nothing: these are the same handlers, for servers that look methods up by name."""


def _handler(register: Callable[[Any, Any], None], servicer: Any) -> Any:
    collector = _HandlerCollector()
    register(servicer, collector)
    return collector.handlers[0]
