"""Register one plugin socket: dial it, get its info, pass it to the handler of its type, notify it of the result."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import grpc
import grpc.aio

from actors.devices.model.errors import RegistrationFailed, describe
from protocols.errors import NodeplaneError
from protocols.process.layout import SOCKET_PATH_LIMIT
from protocols.process.sockets import answers
from protocols.wire import pluginregistration_v1_pb2 as pb
from protocols.wire.methods import unix_channel
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


class Handler(Protocol):
    """Accept plugins of one type. The first two methods raise NodeplaneError with the message the plugin is sent."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Remove a plugin whose socket is gone or whose notification failed. Raises nothing."""
        ...


DIAL_S, INFO_S, NOTIFY_S = 10.0, 1.0, 5.0
LISTEN_TRIES, LISTEN_PAUSE_S = 4, 0.05
MAX_NAME_LENGTH = 1024


class Registrar:
    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._registered: dict[Path, PluginInfo] = {}

    async def register(self, socket: Path) -> PluginInfo:
        """Raises RegistrationFailed; the plugin is not registered then."""
        if len(str(socket).encode()) > SOCKET_PATH_LIMIT:
            raise RegistrationFailed(f"socket path too long ({SOCKET_PATH_LIMIT} bytes at most): {socket}")
        await wait_listening(socket)
        async with unix_channel(socket) as channel:
            try:
                await asyncio.wait_for(channel.channel_ready(), DIAL_S)
            except TimeoutError:
                raise RegistrationFailed(f"failed to dial socket {socket}: no answer") from None
            info = await self._get_info(channel, socket)
            await self._hand_over(channel, info)
        return info

    async def deregister(self, socket: Path) -> None:
        info = self._registered.pop(socket, None)
        if info is not None:
            await self._handlers[info.type].deregister(info.name, info.endpoint)

    async def _get_info(self, channel: grpc.aio.Channel, socket: Path) -> PluginInfo:
        try:
            info = await GET_INFO.unary(channel)(pb.InfoRequest(), timeout=INFO_S)
        except grpc.RpcError as error:
            raise RegistrationFailed(
                f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {socket}, "
                f"err: {describe(error)}"
            ) from None
        return PluginInfo(info.type, info.name, info.endpoint or str(socket), tuple(info.supported_versions), socket)

    async def _hand_over(self, channel: grpc.aio.Channel, info: PluginInfo) -> None:
        try:
            await self._pass_to_handler(info)
        except NodeplaneError as error:
            await self._notify(channel, str(error))
            raise RegistrationFailed(str(error)) from None
        self._registered[info.socket] = info
        failure = await self._notify(channel, "")
        if failure:
            await self.deregister(info.socket)
            raise RegistrationFailed(
                f"RegisterPlugin error -- failed to send registration status at socket {info.socket}, err: {failure}"
            )

    async def _pass_to_handler(self, info: PluginInfo) -> None:
        handler = self._handlers.get(info.type)
        if handler is None:
            raise RegistrationFailed(
                f"RegisterPlugin error -- no handler registered for plugin type: {info.type[:MAX_NAME_LENGTH]} "
                f"at socket {info.socket}"
            )
        try:
            check_endpoint(info)
            handler.validate(info.name, info.endpoint, info.versions)
        except NodeplaneError as error:
            raise RegistrationFailed(f"RegisterPlugin error -- plugin validation failed with err: {error}") from None
        try:
            await handler.register(info.name, info.endpoint, info.versions)
        except NodeplaneError as error:
            raise RegistrationFailed(f"RegisterPlugin error -- plugin registration failed with err: {error}") from None

    async def _notify(self, channel: grpc.aio.Channel, error: str) -> str:
        """Return the error, or "" if the plugin acknowledged. Drivers may answer a rejection with an error."""
        try:
            await NOTIFY.unary(channel)(
                pb.RegistrationStatus(plugin_registered=not error, error=error), timeout=NOTIFY_S
            )
        except grpc.RpcError as refused:
            return describe(refused)
        return ""


async def wait_listening(socket: Path) -> None:
    """Wait a moment for a socket that is bound but does not listen yet. Raises RegistrationFailed.

    Asking the kernel first is cheap: sockets of dead plugins do not cost a gRPC channel each.
    """
    for _ in range(LISTEN_TRIES):
        if answers(socket):
            return
        await asyncio.sleep(LISTEN_PAUSE_S)
    raise RegistrationFailed(f"failed to dial socket {socket}: no process listens")


def check_endpoint(info: PluginInfo) -> None:
    if not info.endpoint.startswith("/") or len(info.endpoint.encode()) > SOCKET_PATH_LIMIT:
        raise RegistrationFailed(
            f'the endpoint "{info.endpoint[:MAX_NAME_LENGTH]}" is no absolute path of at most {SOCKET_PATH_LIMIT} bytes'
        )
