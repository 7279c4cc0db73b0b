"""Methods of both services as the gRPC server calls them: find the method objects, and turn errors into gRPC codes."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from actors.runtime.model.errors import InvalidRequest, NotSupported, StateNotWritten
from protocols.errors import NodeplaneError
from protocols.http2.server import Failed, Method

Unary = Callable[[Any], Awaitable[Message]]
Streaming = Callable[[Any], AsyncGenerator[bytes, None]]

CANCELLED_WITH_CALLER = frozenset({"StopContainer", "ExecSync"})
"""Methods that wait for processes. All others run to completion when the caller disconnects: nothing is half done."""

_LOG = logging.getLogger("runtime")


def methods_of(service: ServiceDescriptor, parts: Sequence[object]) -> dict[str, Method]:
    """Return the methods of a service by path. `parts` are searched in order for an attribute with a method's name."""
    return {f"/{service.full_name}/{method.name}": _method(method, parts) for method in service.methods}


def _method(method: MethodDescriptor, parts: Sequence[object]) -> Method:
    name = method.name
    target = next((handler for part in parts if (handler := getattr(part, name, None))), None)
    parse = message_factory.GetMessageClass(method.input_type).FromString
    if method.server_streaming:
        return Method(stream=_streaming(name, target, parse), cancelled=True)
    return Method(unary=_unary(name, target, parse), cancelled=name in CANCELLED_WITH_CALLER)


def _unary(name: str, target: Unary | None, parse: Callable[[bytes], Any]) -> Callable[[bytes], Awaitable[bytes]]:
    async def call(data: bytes) -> bytes:
        if target is None:
            raise _missing(name)
        return (await target(_parse(name, parse, data))).SerializeToString()

    return call


def _streaming(
    name: str, target: Streaming | None, parse: Callable[[bytes], Any]
) -> Callable[[bytes], AsyncGenerator[bytes, None]]:
    def call(data: bytes) -> AsyncGenerator[bytes, None]:
        if target is None:
            raise _missing(name)
        return target(_parse(name, parse, data))

    return call


def _missing(name: str) -> NotSupported:
    return NotSupported(
        f"the embedded runtime has no {name}; use containerd or CRI-O with --runtime where it is needed"
    )


def _parse(name: str, parse: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return parse(data)
    except DecodeError:
        raise InvalidRequest(f"{name}: the request is not a valid message") from None


def failure_of(path: str, error: Exception) -> Failed:
    """Return code and text of the exception of a method."""
    name = path.rpartition("/")[2]
    if isinstance(error, OSError):
        error = StateNotWritten(f"{name}: {error.strerror or error}")
    if not isinstance(error, NodeplaneError):
        _LOG.error("%s failed", name, exc_info=error)
        error = NodeplaneError(f"{name}: {type(error).__name__}: {error}")
    return error.grpc, str(error)
