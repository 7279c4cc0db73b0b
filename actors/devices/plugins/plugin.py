"""What a plugin's ListAndWatch says, at our pace: of lists that come faster than they are used the newest counts."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from actors.devices.model.errors import PluginFailed, PluginUnreachable, describe
from actors.devices.model.types import Limits, PluginDevice, PluginOptions
from protocols.layout import SOCKET_PATH_LIMIT
from protocols.pace import Bucket
from protocols.sockets import is_socket
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from protocols.wire.methods import Method, unix_channel

HEALTHY = "Healthy"

MOST_DEVICES = 20_000
"""Of one plugin."""
LONGEST_ID = 1024
"""Characters; the API says 63, and no kubelet asks for it."""
MOST_NODES = 1024
BURST, MESSAGES_S = 50, 1000.0
"""Messages that are taken in one go, and how many a second then: a plugin that talks without end costs little."""
PAUSE_S = 0.05
"""How long such a plugin is not listened to then: one rest for many messages is cheaper than a short one each."""


class Lists:
    """One stream. A reader takes bytes off it; only lists that are used are parsed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        listen: grpc.aio.UnaryStreamMultiCallable[pb.Empty, bytes] = channel.unary_stream(
            LIST_AND_WATCH.path, request_serializer=pb.Empty.SerializeToString, response_deserializer=bytes
        )
        self._call = listen(pb.Empty())
        self._newest: bytes | None = None
        self._news = asyncio.Event()
        self._end: PluginFailed | None = None

    async def read(self) -> AsyncIterator[list[PluginDevice]]:
        """Has no deadline: silence is normal. Raises PluginFailed at the end.

        Half of the time is left to others: what a list costs is waited for before the next."""
        reader = asyncio.create_task(self._reader())
        try:
            while True:
                await self._news.wait()
                began = time.perf_counter()
                if (message := self._take()) is not None:
                    yield devices_of(message)
                await asyncio.sleep(time.perf_counter() - began)
        finally:
            reader.cancel()
            self._call.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    def _take(self) -> bytes | None:
        """The newest list; None when the end comes next. Raises the end."""
        message, self._newest = self._newest, None
        if self._end is None:
            self._news.clear()
        elif message is None:
            raise self._end
        return message

    async def _reader(self) -> None:
        try:
            pace = Bucket(MESSAGES_S, BURST, BURST, time.monotonic())
            async for message in self._call:
                self._newest = message
                self._news.set()
                if pace.wait(time.monotonic()) > 0:
                    await asyncio.sleep(PAUSE_S)
            self._end = PluginFailed("ListAndWatch ended: the plugin closed its stream")
        except grpc.RpcError as error:
            self._end = PluginFailed(f"ListAndWatch ended: {describe(error)}")
        self._news.set()


def devices_of(raw: bytes) -> list[PluginDevice]:
    """Raises PluginFailed for a list that no machine has. Of two devices with one id the last counts."""
    try:
        message = pb.ListAndWatchResponse.FromString(raw)
    except DecodeError:
        raise PluginFailed("ListAndWatch ended: what it sends is no list of devices") from None
    if len(message.devices) > MOST_DEVICES:
        raise PluginFailed(f"it lists {len(message.devices)} devices, {MOST_DEVICES} are the limit")
    longest = max((len(device.ID) for device in message.devices), default=0)
    if longest > LONGEST_ID:
        raise PluginFailed(f"it lists a device whose id has {longest} characters, {LONGEST_ID} are the limit")
    return [_device(device) for device in message.devices if device.ID]


def _device(device: pb.Device) -> PluginDevice:
    """A NUMA node that no kernel has is none."""
    numa = tuple(sorted({node.ID for node in device.topology.nodes if 0 <= node.ID < MOST_NODES}))
    return PluginDevice(id=device.ID, healthy=device.health == HEALTHY, numa=numa)


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
