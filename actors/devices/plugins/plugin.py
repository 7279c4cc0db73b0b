"""One connection to one device plugin: every call of ours to it, each with a deadline."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from actors.devices.errors import PluginFailed, PluginUnreachable
from actors.devices.plugins.describe import describe
from actors.devices.plugins.lists import Lists
from actors.devices.types import Limits, PluginDevice, PluginOptions
from protocols.layout import SOCKET_PATH_LIMIT
from protocols.sockets import is_socket
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import ALLOCATE, GET_OPTIONS, GET_PREFERRED, PRE_START
from protocols.wire.methods import Method, unix_channel

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)

LONGEST_ANSWER = 1 << 20
"""Bytes of one Allocate: it is part of every checkpoint from then on."""


@dataclass(frozen=True)
class Peer:
    """Whom to call: the resource it serves and its socket."""

    resource: str
    socket: Path
    limits: Limits


class Plugin:
    """Identity matters: two connections to the same socket are two plugins."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.options = PluginOptions()
        self._channel = unix_channel(peer.socket)

    async def connect(self) -> None:
        """Wait for the socket and ask for the options; raises PluginUnreachable within the dial deadline."""
        self._look()
        try:
            await asyncio.wait_for(self._channel.channel_ready(), self.peer.limits.dial)
        except TimeoutError:
            raise PluginUnreachable(f"failed to dial device plugin: no answer at {self.peer.socket}") from None
        try:
            reply = await self._call(GET_OPTIONS, pb.Empty(), self.peer.limits.dial)
        except PluginFailed as error:
            raise PluginUnreachable(f"failed to get device plugin options: {error}") from None
        self.options = PluginOptions(
            pre_start=reply.pre_start_required, preferred=reply.get_preferred_allocation_available
        )

    def _look(self) -> None:
        """A socket may still come, since plugins hurry; something else in its place never becomes one."""
        socket = self.peer.socket
        if len(str(socket).encode()) > SOCKET_PATH_LIMIT:
            raise PluginUnreachable(f"failed to dial device plugin: {socket} is too long for the path of a socket")
        if os.path.lexists(socket) and not is_socket(socket):
            raise PluginUnreachable(f"failed to dial device plugin: {socket} is no socket")

    def lists(self) -> AsyncIterator[list[PluginDevice]]:
        """Each full list the plugin sends. Raises PluginFailed at the end."""
        return Lists(self._channel).read()

    async def allocate(self, ids: Sequence[str]) -> bytes:
        """The plugin's answer for one container, as bytes of the wire; raises PluginFailed."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        reply = await self._call(ALLOCATE, request, self.peer.limits.call)
        if not reply.container_responses:
            raise PluginFailed(f"no containers return in allocation response {self.peer.resource}")
        answer = reply.container_responses[0].SerializeToString(deterministic=True)
        if len(answer) > LONGEST_ANSWER:
            raise PluginFailed(f"allocation response of {len(answer)} bytes is over the limit of {LONGEST_ANSWER}")
        return answer

    async def preferred(self, available: Sequence[str], included: Sequence[str], size: int) -> list[str]:
        """What the plugin would choose; may be too few or nonsense. Raises PluginFailed."""
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        try:
            reply = await self._call(GET_PREFERRED, request, self.peer.limits.call)
        except PluginFailed as error:
            raise PluginFailed(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from None
        return list(reply.container_responses[0].deviceIDs) if reply.container_responses else []

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Raises PluginFailed."""
        try:
            await self._call(PRE_START, pb.PreStartContainerRequest(devices_ids=ids), self.peer.limits.call)
        except PluginFailed as error:
            raise PluginFailed(f"device plugin PreStartContainer rpc failed with err: {error}") from None

    async def _call(self, method: Method[Request, Reply], request: Request, timeout: float) -> Reply:
        """Raises PluginFailed. The library hands out None for bytes that are no such message."""
        try:
            reply: Reply | None = await method.unary(self._channel)(request, timeout=timeout)
        except grpc.RpcError as error:
            raise PluginFailed(describe(error)) from None
        if reply is None:
            raise PluginFailed(f"what it answers to {method.name} is no {method.reply.__name__}")
        return reply

    async def close(self) -> None:
        await self._channel.close()
