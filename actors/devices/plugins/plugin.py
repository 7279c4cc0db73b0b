"""One connection to one device plugin: its device lists, and every call to it, each with a deadline.

Lists are read at a bounded rate; of lists that arrive faster than they are used only the newest counts.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio
import msgspec
from google.protobuf.message import DecodeError, Message

from actors.devices.calls.log import NO_PURPOSE, CallLog, CallPeer, Purpose, RecordedCall
from actors.devices.calls.outcomes import allocated, options_outcome, preference_outcome
from actors.devices.model.errors import PluginFailed, PluginUnreachable, describe, status_of
from actors.devices.model.types import CallDeadlines
from protocols.lifecycle.devices.types import PluginDevice, PluginOptions
from protocols.messages.devices import HEALTHY, UNHEALTHY
from protocols.process.layout import SOCKET_PATH_LIMIT
from protocols.process.rates import TokenBucket
from protocols.process.sockets import is_socket
from protocols.process.tasks import Tasks, one_line, report
from protocols.trace import call_begins, span
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Method, plugin_channel
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START

WORDS = frozenset({HEALTHY, UNHEALTHY})
MAX_WORD = 64
"""Characters of any other word that are kept."""

MAX_DEVICES = 20_000
"""Per plugin."""
MAX_ID_LENGTH = 1024
"""Characters. The API allows 63, which kubelet does not enforce."""
MAX_NODES = 1024
MAX_LISTED_NODES = 200_000
"""NUMA nodes of all devices of a list, ten for each of the most devices."""
BURST, MESSAGES_S = 50, 1000.0
"""Messages read at once, and then per second, so that a plugin that never stops sending costs little."""
PAUSE_S = 0.05
"""Pause of such a plugin's stream: one long pause costs less than many short ones."""


class DeviceListStream:
    """One ListAndWatch stream. Bytes are read as they come; only lists that are used are parsed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        listen: grpc.aio.UnaryStreamMultiCallable[pb.Empty, bytes] = channel.unary_stream(
            LIST_AND_WATCH.path, request_serializer=pb.Empty.SerializeToString, response_deserializer=bytes
        )
        self._call = listen(pb.Empty())
        self._newest: bytes | None = None
        self._arrived = asyncio.Event()
        self._ended: PluginFailed | None = None

    async def read(self) -> AsyncIterator[list[PluginDevice]]:
        """Yield device lists without a deadline, since silence is normal. Raises PluginFailed at the end.

        After each list it sleeps as long as the consumer took, so that at most half of the time goes to one plugin.
        """
        tasks = Tasks(self._failed)
        tasks.start(self._reader(), "plugin lists")
        try:
            while True:
                await self._arrived.wait()
                began = time.perf_counter()
                if (message := self._take()) is not None:
                    yield devices_of(message)
                await asyncio.sleep(time.perf_counter() - began)
        finally:
            self._call.cancel()
            await tasks.close()

    def _failed(self, name: str, error: BaseException) -> None:
        report(name, error)
        self._ended = PluginFailed(f"ListAndWatch ended: {one_line(error)}")
        self._arrived.set()

    def _take(self) -> bytes | None:
        """Return the newest list, or None if the end comes next. Raises PluginFailed at the end."""
        message, self._newest = self._newest, None
        if self._ended is None:
            self._arrived.clear()
        elif message is None:
            raise self._ended
        return message

    async def _reader(self) -> None:
        try:
            pace = TokenBucket(MESSAGES_S, BURST, BURST, time.monotonic())
            async for message in self._call:
                self._newest = message
                self._arrived.set()
                if pace.wait(time.monotonic()) > 0:
                    await asyncio.sleep(PAUSE_S)
            self._ended = PluginFailed("ListAndWatch ended: the plugin closed its stream")
        except grpc.RpcError as error:
            self._ended = PluginFailed(f"ListAndWatch ended: {describe(error)}", status_of(error)[0])
        self._arrived.set()


def devices_of(raw: bytes) -> list[PluginDevice]:
    """Parse a list. The last of several devices with one id wins. Raises PluginFailed if a limit is exceeded."""
    try:
        message = pb.ListAndWatchResponse.FromString(raw)
    except DecodeError:
        raise PluginFailed("ListAndWatch ended: it sent a malformed list") from None
    if len(message.devices) > MAX_DEVICES:
        raise PluginFailed(f"it lists {len(message.devices)} devices, the limit is {MAX_DEVICES}")
    longest = max((len(device.ID) for device in message.devices), default=0)
    if longest > MAX_ID_LENGTH:
        raise PluginFailed(f"it lists a device whose id has {longest} characters, the limit is {MAX_ID_LENGTH}")
    nodes = sum(len(device.topology.nodes) for device in message.devices)
    if nodes > MAX_LISTED_NODES:
        raise PluginFailed(f"its devices name {nodes} NUMA nodes, the limit is {MAX_LISTED_NODES}")
    return [_device(device) for device in message.devices if device.ID]


def _device(device: pb.Device) -> PluginDevice:
    numa = tuple(sorted({node.ID for node in device.topology.nodes if 0 <= node.ID < MAX_NODES}))
    word = "" if device.health in WORDS else device.health[:MAX_WORD] or "(empty)"
    return PluginDevice(id=device.ID, healthy=device.health == HEALTHY, numa=numa, word=word)


Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)

MAX_RESPONSE_BYTES = 1 << 20
"""Bytes of one Allocate response, which is part of every later checkpoint."""
CLOSE_GRACE_S = 0.5


class PluginEndpoint(msgspec.Struct, frozen=True):
    """A plugin's resource and socket."""

    resource: str
    socket: Path
    limits: CallDeadlines
    calls: CallLog = msgspec.field(default_factory=CallLog)

    @property
    def peer(self) -> CallPeer:
        return CallPeer(self.resource, str(self.socket))


class Plugin:
    """Compared by identity: two connections to the same socket are two plugins."""

    def __init__(self, endpoint: PluginEndpoint) -> None:
        self.endpoint = endpoint
        self.options = PluginOptions()
        self._channel = plugin_channel(endpoint.socket)

    async def connect(self) -> None:
        """Wait for the socket and get the options. Raises PluginUnreachable within the dial deadline."""
        self._check_path()
        try:
            async with asyncio.timeout(self.endpoint.limits.dial):
                await self._channel.channel_ready()
        except TimeoutError:
            raise PluginUnreachable(f"failed to dial device plugin: no answer at {self.endpoint.socket}") from None
        with self._recorded(GET_OPTIONS, Purpose(if_failed="registration rejected"), self.endpoint.limits.dial) as call:
            try:
                reply = await self._call(call, GET_OPTIONS, pb.Empty(), self.endpoint.limits.dial)
            except PluginFailed as error:
                raise PluginUnreachable(f"failed to get device plugin options: {error}") from None
            self.options = PluginOptions(
                pre_start=reply.pre_start_required, preferred=reply.get_preferred_allocation_available
            )
            call.outcome = options_outcome(self.options)

    def _check_path(self) -> None:
        """Raise PluginUnreachable if the path can never become a socket. A missing one may still appear."""
        socket = self.endpoint.socket
        if len(str(socket).encode()) > SOCKET_PATH_LIMIT:
            raise PluginUnreachable(f"failed to dial device plugin: {socket} is too long for the path of a socket")
        if os.path.lexists(socket) and not is_socket(socket):
            raise PluginUnreachable(f"failed to dial device plugin: {socket} is not a socket")

    def lists(self) -> AsyncIterator[list[PluginDevice]]:
        """Yield each full list. Raises PluginFailed at the end."""
        call_begins(LIST_AND_WATCH.name, self.endpoint.resource)
        return DeviceListStream(self._channel).read()

    async def allocate(self, ids: Sequence[str], purpose: Purpose = NO_PURPOSE) -> bytes:
        """Return the raw response for one container. Raises PluginFailed."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        with self._recorded(ALLOCATE, purpose, self.endpoint.limits.call) as call:
            reply = await self._call(call, ALLOCATE, request, self.endpoint.limits.call)
            if not reply.container_responses:
                call.outcome = allocated(0)
                raise PluginFailed(f"no containers return in allocation response {self.endpoint.resource}")
            answer = reply.container_responses[0].SerializeToString(deterministic=True)
            if len(answer) > MAX_RESPONSE_BYTES:
                raise PluginFailed(
                    f"allocation response of {len(answer)} bytes is over the limit of {MAX_RESPONSE_BYTES}"
                )
            call.outcome = allocated(len(reply.container_responses))
            return answer

    async def preferred(
        self, available: Sequence[str], included: Sequence[str], size: int, purpose: Purpose = NO_PURPOSE
    ) -> list[str]:
        """Return the plugin's choice, unchecked but for its length. Raises PluginFailed."""
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        with self._recorded(GET_PREFERRED, purpose, self.endpoint.limits.call) as call:
            try:
                reply = await self._call(call, GET_PREFERRED, request, self.endpoint.limits.call)
            except PluginFailed as error:
                raise PluginFailed(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from None
            answers = reply.container_responses
            ids = list(islice(answers[0].deviceIDs, MAX_DEVICES)) if answers else []
            call.outcome = preference_outcome(ids, available, size)
            return ids

    async def pre_start(self, ids: Sequence[str], purpose: Purpose = NO_PURPOSE) -> None:
        """Raises PluginFailed."""
        request = pb.PreStartContainerRequest(devices_ids=ids)
        with self._recorded(PRE_START, purpose, self.endpoint.limits.call) as call:
            try:
                await self._call(call, PRE_START, request, self.endpoint.limits.call)
            except PluginFailed as error:
                raise PluginFailed(f"device plugin PreStartContainer rpc failed with err: {error}") from None
            call.outcome = "the container may start"

    def _recorded(self, method: Method[Request, Reply], purpose: Purpose, deadline: float) -> RecordedCall:
        return self.endpoint.calls.call(self.endpoint.peer, method, deadline=deadline, purpose=purpose)

    async def _call(
        self, call: RecordedCall, method: Method[Request, Reply], request: Request, timeout: float
    ) -> Reply:
        """Raises PluginFailed."""
        call.asked(request)
        with span("", method.name, resource=self.endpoint.resource):
            try:
                reply = await method.unary(self._channel)(request, timeout=timeout)
            except grpc.RpcError as error:
                call.failed(error)
                raise PluginFailed(describe(error)) from None
        call.answered(reply)
        return reply

    async def close(self) -> None:
        """End calls in flight with PluginFailed. Those of a plugin that died end by themselves first."""
        await self._channel.close(CLOSE_GRACE_S)
