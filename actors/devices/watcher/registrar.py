"""Register one plugin socket: dial it, get its info, pass it to the handler of its type, notify it of the result."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import grpc
import grpc.aio
import msgspec

from actors.devices.calls.log import CallLog, CallPeer, Purpose, RecordedCall
from actors.devices.model.errors import PluginSilent, RegistrationFailed, describe
from protocols.errors import NodeplaneError
from protocols.process.layout import SOCKET_PATH_LIMIT
from protocols.process.sockets import answers
from protocols.wire import pluginregistration_v1_pb2 as pb
from protocols.wire.methods import plugin_channel
from protocols.wire.plugins import GET_INFO, NOTIFY


class PluginInfo(NamedTuple):
    """A plugin as its GetInfo describes it."""

    type: str
    name: str
    endpoint: str
    """Absolute path of the plugin's service."""
    versions: tuple[str, ...]
    socket: Path
    """The socket in plugins_registry/."""


class PluginHandler(Protocol):
    """Accept plugins of one type. The first two methods raise NodeplaneError with the message the plugin is sent."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Remove a plugin whose socket is gone or whose notification failed. Raises nothing."""
        ...


FIRST_DIAL_S, DIAL_S, INFO_S, NOTIFY_S = 1.0, 10.0, 1.0, 5.0
"""A socket is dialed briefly at first: hundreds that never answer keep a new plugin waiting for seconds only."""
LISTEN_TRIES, LISTEN_PAUSE_S = 4, 0.05
MAX_NAME_LENGTH, MAX_VERSIONS = 1024, 1024
NOT_REGISTERED = "not registered; it is tried again"


class Registrar:
    """Registers sockets with the handlers of their plugin types."""

    def __init__(self, handlers: Mapping[str, PluginHandler], calls: CallLog) -> None:
        self._handlers = handlers
        self._calls = calls
        self._registered: dict[Path, PluginInfo] = {}

    async def register(self, socket: Path, retried: bool = False) -> PluginInfo:
        """Raises RegistrationFailed; the plugin is not registered then. `retried`: the last try failed."""
        peer, seconds = CallPeer(socket.name, str(socket), known=False), DIAL_S if retried else FIRST_DIAL_S
        async with AsyncExitStack() as stack:
            with self._calls.call(peer, GET_INFO, deadline=INFO_S, purpose=Purpose(if_failed=NOT_REGISTERED)) as call:
                await wait_listening(socket)
                # A closed channel keeps its socket until an attempt to connect is over, 20 s by default.
                attempt = ("grpc.min_reconnect_backoff_ms", int(1000 * seconds))
                channel = await stack.enter_async_context(plugin_channel(socket, attempt))
                await dial(socket, channel, seconds)
                info = await get_info(call, channel, socket)
                error = await self._pass_to_handler(info)
                call.peer = msgspec.structs.replace(peer, name=info.name, known=not error)
                call.outcome = f"{error}: {NOT_REGISTERED}" if error else f"accepted as {info.type}"
            await self._finish(channel, info, error)
        return info

    async def deregister(self, socket: Path) -> None:
        info = self._registered.pop(socket, None)
        if info is not None:
            await self._handlers[info.type].deregister(info.name, info.endpoint)

    async def _finish(self, channel: grpc.aio.Channel, info: PluginInfo, error: str) -> None:
        """Notify the plugin of the result. Raises RegistrationFailed."""
        if error:
            await self._notify(channel, info, error)
            raise RegistrationFailed(error)
        self._registered[info.socket] = info
        failure = await self._notify(channel, info, "")
        if failure:
            await self.deregister(info.socket)
            raise RegistrationFailed(
                f"RegisterPlugin error -- failed to send registration status at socket {info.socket}, err: {failure}"
            )

    async def _pass_to_handler(self, info: PluginInfo) -> str:
        """Return the error, or "" if the plugin is registered."""
        handler = self._handlers.get(info.type)
        if handler is None:
            return (
                f"RegisterPlugin error -- no handler registered for plugin type: {info.type[:MAX_NAME_LENGTH]} "
                f"at socket {info.socket}"
            )
        try:
            check_endpoint(info)
            handler.validate(info.name, info.endpoint, info.versions)
        except NodeplaneError as error:
            return f"RegisterPlugin error -- plugin validation failed with err: {error}"
        try:
            await handler.register(info.name, info.endpoint, info.versions)
        except NodeplaneError as error:
            return f"RegisterPlugin error -- plugin registration failed with err: {error}"
        return ""

    async def _notify(self, channel: grpc.aio.Channel, info: PluginInfo, error: str) -> str:
        """Return the error, or "" if the plugin acknowledged. Drivers may answer a rejection with an error."""
        status = pb.RegistrationStatus(plugin_registered=not error, error=error)
        peer = CallPeer(info.name, str(info.socket), known=not error)
        with self._calls.call(peer, NOTIFY, deadline=NOTIFY_S) as call:
            call.asked(status)
            try:
                call.answered(await NOTIFY.unary(channel)(status, timeout=NOTIFY_S))
            except grpc.RpcError as refused:
                call.failed(refused)
                call.outcome = NOT_REGISTERED
                return describe(refused)
            call.outcome = NOT_REGISTERED if error else "registered"
            return ""


async def dial(socket: Path, channel: grpc.aio.Channel, seconds: float) -> None:
    """Wait until the plugin speaks HTTP/2. Raises PluginSilent."""
    try:
        async with asyncio.timeout(seconds):
            await channel.channel_ready()
    except TimeoutError:
        raise PluginSilent(f"failed to dial socket {socket}: no answer") from None


async def get_info(call: RecordedCall, channel: grpc.aio.Channel, socket: Path) -> PluginInfo:
    """Raises RegistrationFailed."""
    call.asked(pb.InfoRequest())
    try:
        info = await GET_INFO.unary(channel)(pb.InfoRequest(), timeout=INFO_S)
    except grpc.RpcError as error:
        call.failed(error)
        raise RegistrationFailed(
            f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {socket}, "
            f"err: {describe(error)}"
        ) from None
    call.answered(info)
    versions = tuple(islice(info.supported_versions, MAX_VERSIONS))
    return PluginInfo(info.type, info.name, info.endpoint or str(socket), versions, socket)


async def wait_listening(socket: Path) -> None:
    """Wait a moment for a socket that is bound but does not listen yet. Raises RegistrationFailed.

    Asking the kernel first is cheap: sockets of dead plugins do not cost a gRPC channel each.
    """
    if len(str(socket).encode()) > SOCKET_PATH_LIMIT:
        raise RegistrationFailed(f"socket path too long ({SOCKET_PATH_LIMIT} bytes at most): {socket}")
    for _ in range(LISTEN_TRIES):
        if answers(socket):
            return
        await asyncio.sleep(LISTEN_PAUSE_S)
    raise RegistrationFailed(f"failed to dial socket {socket}: no process listens")


def check_endpoint(info: PluginInfo) -> None:
    """Raise RegistrationFailed unless the endpoint is an absolute path that fits into a socket address."""
    if not info.endpoint.startswith("/") or len(info.endpoint.encode()) > SOCKET_PATH_LIMIT:
        raise RegistrationFailed(
            f'the endpoint "{info.endpoint[:MAX_NAME_LENGTH]}" is no absolute path of at most {SOCKET_PATH_LIMIT} bytes'
        )
