"""A socket that stands for a plugin's or driver's at kubelet: calls and streams are forwarded as bytes, and recorded.

Statuses, deadlines and ends pass unchanged in both directions. Methods that neither API has are UNIMPLEMENTED.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from protocols.messages.calls import CallRecord
from protocols.process.sockets import private_sockets
from protocols.process.tasks import wait_set
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.methods import LIMITS, Method, unix_channel
from protocols.wire.plugins import (
    ALLOCATE,
    GET_INFO,
    GET_OPTIONS,
    GET_PREFERRED,
    LIST_AND_WATCH,
    NOTIFY,
    PRE_START,
    PREPARE,
    UNPREPARE,
    WATCH_DEVICES_STATUS,
    WATCH_RESOURCES,
)
from supervisor.calls.sent import Sent
from supervisor.capture.recording import Recording, Seen, message_of

Context = grpc.aio.ServicerContext[Any, Any]
REGISTERING: tuple[Method[Any, Any], ...] = (GET_INFO, NOTIFY)
CALLS: tuple[Method[Any, Any], ...] = (
    GET_OPTIONS,
    GET_PREFERRED,
    ALLOCATE,
    PRE_START,
    *PREPARE.values(),
    *UNPREPARE.values(),
)
STREAMS: tuple[Method[Any, Any], ...] = (LIST_AND_WATCH, *WATCH_RESOURCES.values(), WATCH_DEVICES_STATUS)
MOST_ERROR = 4096
"""Characters of an error that are recorded."""


class Proxy(grpc.GenericRpcHandler):
    """Serves `socket` for what listens on `target`; `name` is the resource, or unknown until GetInfo was answered."""

    def __init__(self, socket: Path, target: Path, recording: Recording, name: str = "") -> None:
        self.socket, self.target, self.name = socket, target, name
        self.ending = False
        """Calls that end from now on were in progress when the capture ended."""
        self._recording = recording
        self._service = target
        """The socket of the service; a driver names it in GetInfo."""
        self._channels: dict[Path, grpc.aio.Channel] = {}
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._handlers = {method.path: self._unary(method) for method in (*REGISTERING, *CALLS)}
        self._handlers |= {method.path: self._streaming(method) for method in STREAMS}
        self._server = grpc.aio.server(options=LIMITS)
        self._server.add_generic_rpc_handlers((self,))

    async def start(self) -> None:
        with private_sockets():
            self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Remove the socket, and end all calls."""
        self.ending = True
        self.socket.unlink(missing_ok=True)
        await self._server.stop(0)
        for channel in self._channels.values():
            await channel.close()

    @property
    def idle(self) -> bool:
        """Return True while no call or stream is open."""
        return self._idle.is_set()

    async def drain(self, seconds: float) -> None:
        """Wait until no call or stream is open, for a time."""
        await wait_set(self._idle, seconds)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._open += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._handlers.get(handler_call_details.method)

    def _unary(self, method: Method[Any, Any]) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def forward(raw: bytes, context: Context) -> bytes:
            with self._counted():
                left = context.time_remaining()
                sent = self._sent(method, raw, left or 0.0)
                await self._call(sent, left)
                if sent.status != "OK":
                    await context.abort(grpc.StatusCode[sent.status], sent.error)
                return self._introduced(sent.reply) if method is GET_INFO else sent.reply

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _call(self, sent: Sent, timeout: float | None) -> None:
        """Make a call, and record how it ends."""
        call: Any = self._channel(sent.method).unary_unary(sent.method.path)
        try:
            sent.reply = await call(sent.request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            sent.status, sent.error = error.code().name, (error.details() or "")[:MOST_ERROR]
        except asyncio.CancelledError:
            sent.status = "" if self.ending else "CANCELLED"
            raise
        finally:
            self._record(sent)

    def _streaming(self, method: Method[Any, Any]) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def forward(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            stream: Any = self._channel(method).unary_stream(method.path)
            call, seen = stream(raw), Seen()
            with self._counted():
                try:
                    async for message in call:
                        seen = self._heard(method, message, seen)
                        yield message
                    self._recording.add(self._told(method))
                except grpc.aio.AioRpcError as error:
                    status, text = error.code(), (error.details() or "")[:MOST_ERROR]
                    self._recording.add(self._told(method, status=status.name, error=text))
                    await context.abort(status, text)
                finally:
                    call.cancel()

        return grpc.unary_stream_rpc_method_handler(forward)

    def _heard(self, method: Method[Any, Any], message: bytes, before: Seen) -> Seen:
        """Record a message of a stream; one that is malformed is forwarded only."""
        content, seen = message_of(method, message, before)
        if content:
            self._recording.add(self._told(method, reply=content))
        return seen

    def _channel(self, method: Method[Any, Any]) -> "grpc.aio.Channel":
        socket = self._socket(method)
        if socket not in self._channels:
            self._channels[socket] = unix_channel(socket)
        return self._channels[socket]

    def _socket(self, method: Method[Any, Any]) -> Path:
        return self.target if method in REGISTERING else self._service

    def _sent(self, method: Method[Any, Any], raw: bytes, deadline: float) -> Sent:
        return Sent(method, self.name or self.target.name, str(self._socket(method)), raw, deadline)

    def _told(self, method: Method[Any, Any], **rest: Any) -> CallRecord:
        """Return the record of a message of a stream, or of its end."""
        sent = self._sent(method, b"", 0.0)
        sent.incoming, sent.status, sent.error = True, rest.get("status", "OK"), rest.get("error", "")
        record = sent.record()
        record.reply.update(rest.get("reply", {}))
        return record

    def _record(self, sent: Sent) -> None:
        if sent.method is GET_INFO and sent.status == "OK":
            self.name = str(sent.record().reply.get("name", "")) or self.name
            sent.peer = self.name
        record = sent.record()
        self._recording.add(record)
        if sent.method is NOTIFY and record.request.get("plugin_registered"):
            self._recording.accepted(str(self.target))

    def _introduced(self, raw: bytes) -> bytes:
        """Return an answer to GetInfo with our socket as the endpoint; remember the driver's own."""
        try:
            info = registration.PluginInfo.FromString(raw)
        except DecodeError:
            return raw
        self._service = Path(info.endpoint) if info.endpoint else self.target
        info.endpoint = str(self.socket)
        return info.SerializeToString()
