"""One connection to one device plugin: every call of ours to it, each with a deadline."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from actors.devices.errors import PluginFailed, PluginUnreachable
from actors.devices.types import Limits, PluginDevice, PluginOptions
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from protocols.wire.methods import unix_channel

HEALTHY = "Healthy"


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
        try:
            await asyncio.wait_for(self._channel.channel_ready(), self.peer.limits.dial)
        except TimeoutError:
            raise PluginUnreachable(f"failed to dial device plugin: no answer at {self.peer.socket}") from None
        try:
            reply = await GET_OPTIONS.unary(self._channel)(pb.Empty(), timeout=self.peer.limits.dial)
        except grpc.RpcError as error:
            raise PluginUnreachable(f"failed to get device plugin options: {describe(error)}") from None
        self.options = PluginOptions(
            pre_start=reply.pre_start_required, preferred=reply.get_preferred_allocation_available
        )

    async def lists(self) -> AsyncIterator[list[PluginDevice]]:
        """Each full list the plugin sends. Has no deadline: silence is normal. Raises PluginFailed at the end."""
        try:
            async for message in LIST_AND_WATCH.stream(self._channel)(pb.Empty()):
                yield [_device(device) for device in message.devices if device.ID]
        except grpc.RpcError as error:
            raise PluginFailed(f"ListAndWatch ended: {describe(error)}") from None
        raise PluginFailed("ListAndWatch ended: the plugin closed its stream")

    async def allocate(self, ids: Sequence[str]) -> bytes:
        """The plugin's answer for one container, as bytes of the wire; raises PluginFailed."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        try:
            reply = await ALLOCATE.unary(self._channel)(request, timeout=self.peer.limits.call)
        except grpc.RpcError as error:
            raise PluginFailed(describe(error)) from None
        if not reply.container_responses:
            raise PluginFailed(f"no containers return in allocation response {self.peer.resource}")
        return reply.container_responses[0].SerializeToString(deterministic=True)

    async def preferred(self, available: Sequence[str], included: Sequence[str], size: int) -> list[str]:
        """What the plugin would choose; may be too few or nonsense. Raises PluginFailed."""
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=size
        )
        try:
            reply = await GET_PREFERRED.unary(self._channel)(
                pb.PreferredAllocationRequest(container_requests=[wanted]), timeout=self.peer.limits.call
            )
        except grpc.RpcError as error:
            raise PluginFailed(f"device plugin GetPreferredAllocation rpc failed with err: {describe(error)}") from None
        return list(reply.container_responses[0].deviceIDs) if reply.container_responses else []

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Raises PluginFailed."""
        try:
            await PRE_START.unary(self._channel)(
                pb.PreStartContainerRequest(devices_ids=ids), timeout=self.peer.limits.call
            )
        except grpc.RpcError as error:
            raise PluginFailed(f"device plugin PreStartContainer rpc failed with err: {describe(error)}") from None

    async def close(self) -> None:
        await self._channel.close()


def describe(error: grpc.RpcError) -> str:
    """One line of a failed call."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return str(error)
    details = " ".join((error.details() or "").split())
    return f"rpc error: code = {error.code().name} desc = {details}"


def _device(device: pb.Device) -> PluginDevice:
    numa = tuple(sorted({node.ID for node in device.topology.nodes}))
    return PluginDevice(id=device.ID, healthy=device.health == HEALTHY, numa=numa)
