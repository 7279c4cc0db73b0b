"""gRPC handlers of both services: find the method objects, and turn errors into gRPC statuses."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from actors.runtime.model.errors import InvalidRequest, NotSupported, StateNotWritten
from protocols.errors import NodeplaneError
from protocols.process.tasks import shared

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[Any], Awaitable[Message]]
Streaming = Callable[[Any], AsyncGenerator[bytes, None]]

CANCELLED_WITH_CALLER = frozenset({"StopContainer", "ExecSync"})
"""Methods that wait for processes. All others run to completion when the caller disconnects: nothing is half done."""

_LOG = logging.getLogger("runtime")


class ServiceHandlers:
    """Handlers of one service. `parts` are searched in order for an attribute with the method's name."""

    def __init__(self, service: ServiceDescriptor, parts: Sequence[object]) -> None:
        self._service = service
        self._parts = parts
        self._running: set[asyncio.Future[Message]] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        methods = {method.name: self._method(method) for method in self._service.methods}
        return grpc.method_handlers_generic_handler(self._service.full_name, methods)

    def _method(self, method: MethodDescriptor) -> Any:
        target = next((found for part in self._parts if (found := getattr(part, method.name, None))), None)
        parse = message_factory.GetMessageClass(method.input_type).FromString
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._streaming(method.name, target, parse))
        return grpc.unary_unary_rpc_method_handler(self._unary(method.name, target, parse))

    def _unary(self, name: str, target: Unary | None, parse: Callable[[bytes], Any]) -> Any:
        async def call(data: bytes, context: Context) -> bytes:
            try:
                if target is None:
                    raise _missing(name)
                answer = target(_parse(name, parse, data))
                if name not in CANCELLED_WITH_CALLER:
                    answer = self._to_completion(answer)
                return (await answer).SerializeToString()
            except Exception as error:
                return await _abort(name, error, context)

        return call

    def _streaming(self, name: str, target: Streaming | None, parse: Callable[[bytes], Any]) -> Any:
        async def call(data: bytes, context: Context) -> AsyncGenerator[bytes, None]:
            try:
                if target is None:
                    raise _missing(name)
                async with contextlib.aclosing(target(_parse(name, parse, data))) as items:
                    await context.send_initial_metadata(())  # before any event: the stream is open
                    async for item in items:
                        yield item
            except Exception as error:
                await _abort(name, error, context)

        return call

    def _to_completion(self, answer: Awaitable[Message]) -> Awaitable[Message]:
        task = shared(_answered(answer), "runtime call")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return asyncio.shield(task)


async def _answered(answer: Awaitable[Message]) -> Message:
    return await answer


def _missing(name: str) -> NotSupported:
    return NotSupported(
        f"the embedded runtime has no {name}; use containerd or CRI-O with --runtime where it is needed"
    )


def _parse(name: str, parse: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return parse(data)
    except DecodeError:
        raise InvalidRequest(f"{name}: the request is not a valid message") from None


async def _abort(name: str, error: Exception, context: Context) -> bytes:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, OSError):
        error = StateNotWritten(f"{name}: {error.strerror or error}")
    if not isinstance(error, NodeplaneError):
        _LOG.exception("%s failed", name)
        error = NodeplaneError(f"{name}: {type(error).__name__}: {error}")
    assert isinstance(error, NodeplaneError)
    return await context.abort(grpc.StatusCode[error.grpc], str(error))
