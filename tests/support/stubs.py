"""Clients and servers of services as grpcio's generator writes them, for programs that are not ours.

A name such as `dra_v1_pb2_grpc` is what the generated module of a proto would be: for each service NAME it has
`NAMEStub`, `NAMEServicer` and `add_NAMEServicer_to_server`.
"""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass


def __getattr__(name: str) -> Any:
    if not name.endswith("_pb2_grpc"):
        raise AttributeError(name)
    services = import_module(f"protocols.wire.{name.removesuffix('_grpc')}").DESCRIPTOR.services_by_name
    module = ModuleType(f"{__name__}.{name}")
    for service in services.values():
        setattr(module, f"{service.name}Stub", _stub(service))
        setattr(module, f"{service.name}Servicer", _servicer(service))
        setattr(module, f"add_{service.name}Servicer_to_server", _adder(service))
    globals()[name] = module  # all importers get the same classes
    return module


def call(channel: grpc.Channel, service: ServiceDescriptor, name: str) -> Any:
    """Return a method of a service as a function of its request."""
    method = service.methods_by_name[name]
    return getattr(channel, _shape(method))(
        f"/{service.full_name}/{name}",
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )


def _shape(method: MethodDescriptor) -> str:
    """Return `unary_stream` for a method that answers one request with a stream."""
    sides = ("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
    return "_".join(sides)


def _stub(service: ServiceDescriptor) -> type:
    def connect(self: object, channel: grpc.Channel) -> None:
        for method in service.methods:
            setattr(self, method.name, call(channel, service, method.name))

    return type(f"{service.name}Stub", (), {"__init__": connect})


def _unimplemented(self: object, request: object, context: grpc.ServicerContext) -> None:
    context.set_code(grpc.StatusCode.UNIMPLEMENTED)
    context.set_details("Method not implemented!")
    raise NotImplementedError("Method not implemented!")


def _servicer(service: ServiceDescriptor) -> type:
    return type(f"{service.name}Servicer", (), {method.name: _unimplemented for method in service.methods})


def _adder(service: ServiceDescriptor) -> Callable[[Any, grpc.Server], None]:
    def add(servicer: Any, server: grpc.Server) -> None:
        handlers = {
            method.name: getattr(grpc, f"{_shape(method)}_rpc_method_handler")(
                getattr(servicer, method.name),
                request_deserializer=GetMessageClass(method.input_type).FromString,
                response_serializer=GetMessageClass(method.output_type).SerializeToString,
            )
            for method in service.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        server.add_registered_method_handlers(service.full_name, handlers)

    return add
