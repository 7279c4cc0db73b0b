"""Typed gRPC methods over unix sockets: a client's callables and a server's handlers, named by their wire path."""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # read at import: its own lines on stderr are for its developers

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)

MAX_MESSAGE = 16 << 20
"""Bytes; what kubelet's own clients accept."""

LIMITS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
)

MAX_REQUEST = 64 << 10
"""Bytes of a request to a server that node agents and plugins call; theirs have a few names."""

SERVER_LIMITS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", MAX_REQUEST),
)
"""Parsing is one native call, before a request is counted against any rate."""

CLIENT_OPTIONS: tuple[tuple[str, Any], ...] = (
    *LIMITS,
    ("grpc.default_authority", "localhost"),  # Rust and .NET servers refuse the default one, the escaped socket path
    ("grpc.use_local_subchannel_pool", 1),  # a socket path that was re-created is a new peer, not an old back-off
)


def unix_channel(path: Path | str, *more: tuple[str, Any]) -> grpc.aio.Channel:
    """Return a channel to a unix socket; `more` options override CLIENT_OPTIONS. The first call connects."""
    # Of two with one name gRPC takes the first.
    return grpc.aio.insecure_channel(f"unix:{path}", options=(*more, *CLIENT_OPTIONS))


MAX_PLUGIN_MESSAGE = 4 << 20
"""Bytes of a message of a plugin or driver. Kubelet's clients take no more: it is gRPC's default."""


def plugin_channel(path: Path | str, *more: tuple[str, Any]) -> grpc.aio.Channel:
    """Return a channel to a plugin or driver. Parsing a message is one native call, which nothing interrupts."""
    return unix_channel(path, ("grpc.max_receive_message_length", MAX_PLUGIN_MESSAGE), *more)


def rpc_error(code: str, text: str) -> grpc.aio.AioRpcError:
    """Return an error as gRPC's own channel raises it; `code` is a name of grpc.StatusCode."""
    return grpc.aio.AioRpcError(grpc.StatusCode[code], grpc.aio.Metadata(), grpc.aio.Metadata(), text)


class MalformedReply(grpc.aio.AioRpcError):
    """Raised when a peer's message is no valid message of the method's type; the call is cancelled.

    gRPC code INTERNAL, as in grpc-go. A subclass of AioRpcError, so that whoever handles a failed call handles it.
    """

    def __init__(self, method: "Method[Any, Any]") -> None:
        super().__init__(
            grpc.StatusCode.INTERNAL,
            grpc.aio.Metadata(),
            grpc.aio.Metadata(),
            f"the reply to {method.name} is not a valid {method.reply.DESCRIPTOR.name}",
        )


class ChannelClosed(grpc.aio.AioRpcError):
    """Raised when this side closes the channel of a call in flight; gRPC code CANCELLED.

    grpcio raises CancelledError then, which would end a task that nobody cancelled, unheard.
    """

    def __init__(self, method: "Method[Any, Any]") -> None:
        text = f"the connection was closed during {method.name}"
        super().__init__(grpc.StatusCode.CANCELLED, grpc.aio.Metadata(), grpc.aio.Metadata(), text)


class _Call(Generic[Reply]):
    """A call whose messages are parsed here: grpcio logs a traceback and returns None for one it cannot parse."""

    def __init__(self, method: "Method[Any, Reply]", call: Any) -> None:
        self._method = method
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def _parse(self, raw: bytes) -> Reply:
        try:
            return self._method.reply.FromString(raw)
        except DecodeError:
            self._call.cancel()
            raise MalformedReply(self._method) from None


@contextmanager
def _closing_fails(method: "Method[Any, Any]") -> Iterator[None]:
    """Raise ChannelClosed for a CancelledError of grpcio in a task that nobody cancelled."""
    try:
        yield
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        raise ChannelClosed(method) from None


class UnaryCall(_Call[Reply]):
    """A unary call; awaiting it raises grpc.aio.AioRpcError."""

    def __await__(self) -> Generator[Any, None, Reply]:
        with _closing_fails(self._method):
            raw = yield from self._call.__await__()
        return self._parse(raw)


class StreamCall(_Call[Reply]):
    """A stream of messages; reading it raises grpc.aio.AioRpcError."""

    async def __aiter__(self) -> AsyncIterator[Reply]:
        messages, end = aiter(self._call), object()
        while True:
            with _closing_fails(self._method):
                raw = await anext(messages, end)
            if raw is end:
                return
            yield self._parse(raw)

    async def headers(self) -> Any:
        """Return the metadata that the server sent before its first message."""
        with _closing_fails(self._method):
            return await self._call.initial_metadata()

    async def read(self) -> Any:
        """Return the next message, or grpc.aio.EOF."""
        with _closing_fails(self._method):
            raw = await self._call.read()
        return raw if raw is grpc.aio.EOF else self._parse(raw)


class Method(msgspec.Struct, Generic[Request, Reply], frozen=True):
    """One method of a service: full service name, method name, and the message types both ways."""

    service: str
    name: str
    request: type[Request]
    reply: type[Reply]

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"

    def unary(self, channel: grpc.aio.Channel) -> Callable[..., UnaryCall[Reply]]:
        """Return the method as a function of the request and grpc's options of a call."""
        call = channel.unary_unary(self.path, request_serializer=self.request.SerializeToString)
        return lambda request, **options: UnaryCall(self, call(request, **options))

    def stream(self, channel: grpc.aio.Channel) -> Callable[..., StreamCall[Reply]]:
        """Return the method as a function of the request and grpc's options of a call."""
        call = channel.unary_stream(self.path, request_serializer=self.request.SerializeToString)
        return lambda request, **options: StreamCall(self, call(request, **options))


Unary = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[Any]]
Streaming = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], "AsyncIterator[Any] | Awaitable[None]"]


class Service:
    """Handlers of one service, collected by method; `handler()` goes to Server.add_generic_rpc_handlers."""

    def __init__(self) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self.name = ""

    def unary(self, method: Method[Any, Any], call: Unary, encode: Callable[[Any], bytes] | None = None) -> "Service":
        make = grpc.unary_unary_rpc_method_handler
        return self._add(method, make(call, method.request.FromString, encode or method.reply.SerializeToString))  # type: ignore[arg-type]  # the stubs know synchronous handlers only

    def stream(
        self, method: Method[Any, Any], call: Streaming, encode: Callable[[Any], bytes] | None = None
    ) -> "Service":
        make = grpc.unary_stream_rpc_method_handler
        return self._add(method, make(call, method.request.FromString, encode or method.reply.SerializeToString))  # type: ignore[arg-type]  # the stubs know synchronous handlers only

    def _add(self, method: Method[Any, Any], handler: "grpc.RpcMethodHandler[Any, Any]") -> "Service":
        self.name = method.service
        self._handlers[method.name] = parsed_by_handler(handler, method.name)
        return self

    def handler(self) -> "grpc.GenericRpcHandler[Any, Any]":
        return grpc.method_handlers_generic_handler(self.name, self._handlers)


def parsed_by_handler(handler: Any, name: str) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return a handler that parses its requests itself and answers one it cannot parse with INTERNAL, as grpc-go.

    grpcio parses before it calls a handler: UNKNOWN with a name of Python's, and a traceback in the log for each one.
    """
    parse, encode = handler.request_deserializer, handler.response_serializer

    async def parsed(raw: bytes, context: Any) -> Any:
        try:
            return parse(raw)
        except DecodeError:
            await context.abort(grpc.StatusCode.INTERNAL, f"the request to {name} is not a valid message of its type")

    if handler.unary_unary:

        async def unary(raw: bytes, context: Any) -> Any:
            return await handler.unary_unary(await parsed(raw, context), context)

        return grpc.unary_unary_rpc_method_handler(unary, None, encode)  # type: ignore[arg-type]  # the stubs know synchronous handlers only
    if handler.unary_stream:
        return grpc.unary_stream_rpc_method_handler(_stream(handler.unary_stream, parsed), None, encode)

    async def each(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for raw in requests:
            yield await parsed(raw, context)

    async def both(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async with aclosing(handler.stream_stream(each(requests, context), context)) as replies:
            async for reply in replies:
                yield reply

    return grpc.stream_stream_rpc_method_handler(both, None, encode)  # type: ignore[arg-type]  # likewise


def _stream(call: Callable[..., Any], parsed: Callable[[bytes, Any], Awaitable[Any]]) -> Callable[..., Any]:
    """Return a handler of one kind with `call`: it yields replies, or writes them to the context."""

    async def yields(raw: bytes, context: Any) -> AsyncIterator[Any]:
        async with aclosing(call(await parsed(raw, context), context)) as replies:
            async for reply in replies:
                yield reply

    async def writes(raw: bytes, context: Any) -> None:
        await call(await parsed(raw, context), context)

    return yields if inspect.isasyncgenfunction(call) else writes
