"""What grpcio generates of services for programs that are not ours: `python -m protocols.wire.generate` writes it."""

from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass


def call(channel: grpc.Channel, service: ServiceDescriptor, name: str) -> Any:
    """Return a method of a service without generated code, as a function of its request."""
    method = service.methods_by_name[name]
    sides = ("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
    return getattr(channel, "_".join(sides))(
        f"/{service.full_name}/{name}",
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
