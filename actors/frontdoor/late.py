"""The services that every gRPC tool knows, health and reflection. Their libraries are loaded with the first call: most
nodes never see one, and reflection alone costs 0.7 MB."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import grpc

HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"
"""The same on the wire. It answers, but is not in the list: its definition is not among those that can be described."""


class LateServices(grpc.GenericRpcHandler):
    """Tells of `services` whether they serve; "" is the server itself."""

    def __init__(self, services: Iterable[str]) -> None:
        self._names = tuple(services)
        self._serving = dict.fromkeys(("", *self._names), True)
        self._health: Any = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._made: dict[str, Any] = {}
        self._makers: dict[str, Callable[[], Any]] = {
            HEALTH: self._make_health,
            REFLECTION: self._make_reflection,
            REFLECTION_V1: self._make_reflection_v1,
        }

    def only(self, name: str) -> "OneOf":
        """One of the two, for a server of its own."""
        return OneOf(self, name)

    def set(self, service: str, serving: bool) -> None:
        self._serving[service] = serving
        if self._health:
            task = asyncio.get_running_loop().create_task(self._health.set(service, _status(serving)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        name = handler_call_details.method[1:].rpartition("/")[0]
        if name not in self._makers:
            return None
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name].service(handler_call_details)

    def _make_health(self) -> Any:
        from grpc_health.v1 import health, health_pb2_grpc

        self._health = health.aio.HealthServicer()
        for service, serving in self._serving.items():
            self._health._server_status[service] = _status(serving)
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


class OneOf(grpc.GenericRpcHandler):
    def __init__(self, services: LateServices, name: str) -> None:
        self._services = services
        self._prefix = f"/{name}/"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._services.service(handler_call_details) if self._begins(handler_call_details.method) else None

    def _begins(self, method: str) -> bool:
        return method.startswith(self._prefix)


def _status(serving: bool) -> Any:
    from grpc_health.v1 import health_pb2

    return health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING


class _Catcher:
    """Stands for a server: the generated code hands its handlers over to it."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        self.handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """The same ones again, for servers that look methods up by name."""


def _handler(add: Callable[[Any, Any], None], servicer: Any) -> Any:
    catcher = _Catcher()
    add(servicer, catcher)
    return catcher.handlers[0]
