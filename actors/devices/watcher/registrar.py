"""What the watcher finds, and whom it tells."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import grpc
import grpc.aio

from actors.devices.model.errors import RegistrationFailed, describe
from protocols.errors import NodeplaneError
from protocols.layout import SOCKET_PATH_LIMIT
from protocols.sockets import answers
from protocols.wire import pluginregistration_v1_pb2 as pb
from protocols.wire.dra import GET_INFO, NOTIFY
from protocols.wire.methods import unix_channel


class Found(NamedTuple):
    """A plugin as its GetInfo describes it."""

    type: str
    name: str
    endpoint: str
    """Absolute path: the socket of the plugin's own service."""
    versions: tuple[str, ...]
    socket: Path
    """The socket it registered by."""


class Handler(Protocol):
    """Takes in the plugins of one type. The first two raise NodeplaneError with the text the plugin is to be told."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None: ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Its socket is gone, or it did not hear that it was taken. Raises nothing."""
        ...


DIAL_S, INFO_S, NOTIFY_S = 10.0, 1.0, 5.0
LISTEN_TRIES, LISTEN_PAUSE_S = 4, 0.05
LONGEST_NAME = 1024


class Registrar:
    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._taken: dict[Path, Found] = {}

    async def register(self, socket: Path) -> Found:
        """Raises RegistrationFailed; nothing of the plugin is kept then."""
        if len(str(socket).encode()) > SOCKET_PATH_LIMIT:
            raise RegistrationFailed(f"socket path too long ({SOCKET_PATH_LIMIT} bytes at most): {socket}")
        await listening(socket)
        async with unix_channel(socket) as channel:
            try:
                await asyncio.wait_for(channel.channel_ready(), DIAL_S)
            except TimeoutError:
                raise RegistrationFailed(f"failed to dial socket {socket}: no answer") from None
            found = await self._ask(channel, socket)
            await self._hand_over(channel, found)
        return found

    async def deregister(self, socket: Path) -> None:
        found = self._taken.pop(socket, None)
        if found is not None:
            await self._handlers[found.type].deregister(found.name, found.endpoint)

    async def _ask(self, channel: grpc.aio.Channel, socket: Path) -> Found:
        try:
            info = await GET_INFO.unary(channel)(pb.InfoRequest(), timeout=INFO_S)
        except grpc.RpcError as error:
            raise RegistrationFailed(
                f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {socket}, "
                f"err: {describe(error)}"
            ) from None
        return Found(info.type, info.name, info.endpoint or str(socket), tuple(info.supported_versions), socket)

    async def _hand_over(self, channel: grpc.aio.Channel, found: Found) -> None:
        try:
            await self._take(found)
        except NodeplaneError as error:
            await self._tell(channel, str(error))
            raise RegistrationFailed(str(error)) from None
        self._taken[found.socket] = found
        trouble = await self._tell(channel, "")
        if trouble:
            await self.deregister(found.socket)
            raise RegistrationFailed(
                f"RegisterPlugin error -- failed to send registration status at socket {found.socket}, err: {trouble}"
            )

    async def _take(self, found: Found) -> None:
        handler = self._handlers.get(found.type)
        if handler is None:
            raise RegistrationFailed(
                f"RegisterPlugin error -- no handler registered for plugin type: {found.type[:LONGEST_NAME]} "
                f"at socket {found.socket}"
            )
        try:
            check_endpoint(found)
            handler.validate(found.name, found.endpoint, found.versions)
        except NodeplaneError as error:
            raise RegistrationFailed(f"RegisterPlugin error -- plugin validation failed with err: {error}") from None
        try:
            await handler.register(found.name, found.endpoint, found.versions)
        except NodeplaneError as error:
            raise RegistrationFailed(f"RegisterPlugin error -- plugin registration failed with err: {error}") from None

    async def _tell(self, channel: grpc.aio.Channel, error: str) -> str:
        """What went wrong; empty = it was heard. A driver may well answer a refusal with an error of its own."""
        try:
            await NOTIFY.unary(channel)(
                pb.RegistrationStatus(plugin_registered=not error, error=error), timeout=NOTIFY_S
            )
        except grpc.RpcError as refused:
            return describe(refused)
        return ""


async def listening(socket: Path) -> None:
    """A socket whose owner was killed holds nobody up; one that is bound and about to listen gets a moment. Asking the
    kernel first is cheap: many dead sockets cost no channel each. Raises RegistrationFailed."""
    for _ in range(LISTEN_TRIES):
        if answers(socket):
            return
        await asyncio.sleep(LISTEN_PAUSE_S)
    raise RegistrationFailed(f"failed to dial socket {socket}: nobody listens")


def check_endpoint(found: Found) -> None:
    if not found.endpoint.startswith("/") or len(found.endpoint.encode()) > SOCKET_PATH_LIMIT:
        raise RegistrationFailed(
            f'the endpoint "{found.endpoint[:LONGEST_NAME]}" is no absolute path of at most {SOCKET_PATH_LIMIT} bytes'
        )
