"""kubelet's side of the DevicePlugin service: calls with deadlines, and the lists of one plugin."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from protocols.messages.devices import HEALTHY
from protocols.process.tasks import Tasks
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Method, unix_channel
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from supervisor.conform.exchange import Exchange, Recorder, Sent
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

MAX_LIST = 4 << 20
"""Bytes: gRPC's default limit of a received message, which kubelet's client leaves as it is."""
SAMPLE = 8
"""Devices that are allocated to see what an answer looks like."""
NO_ANSWER = ("DEADLINE_EXCEEDED", "UNAVAILABLE", "INTERNAL")
"""Codes of calls that the plugin did not decide."""
Reply = TypeVar("Reply", bound=Message)


class Lists:
    """One ListAndWatch stream: how many lists came, the newest, and the end."""

    def __init__(self, plugin: "PluginPeer") -> None:
        self.count = 0
        self.newest: pb.ListAndWatchResponse | None = None
        self.first: Exchange | None = None
        self.ended = ""
        """Why the stream is over; empty while it is open."""
        self._plugin = plugin
        self._changed = asyncio.Event()
        self._tasks = Tasks()
        listen: Any = plugin.channel.unary_stream(LIST_AND_WATCH.path, request_serializer=pb.Empty.SerializeToString)
        self._call: Any = listen(pb.Empty())
        self._tasks.start(self._read(), "plugin lists")

    async def _read(self) -> None:
        try:
            async for raw in self._call:
                self._take(raw)
            self.ended = "the plugin closed it"
        except grpc.aio.AioRpcError as error:
            self.ended = f"{error.code().name}: {error.details()}"
        self._changed.set()

    def _take(self, raw: bytes) -> None:
        sent = Sent(LIST_AND_WATCH, self._plugin.resource, incoming=True, reply=raw)
        self.count += 1
        try:
            self.newest = pb.ListAndWatchResponse.FromString(raw)
        except DecodeError:
            sent.status, sent.error = "INTERNAL", "not a valid ListAndWatchResponse"
        exchange = sent.done()
        self.first = self.first or exchange
        self._plugin.recorder.add(exchange)
        self._changed.set()

    async def until(self, holds: Callable[["Lists"], bool], seconds: float) -> bool:
        """Wait until it holds; return False if it does not in time."""
        deadline = time.monotonic() + seconds
        while not holds(self):
            self._changed.clear()
            if (left := deadline - time.monotonic()) <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return True

    async def close(self) -> None:
        self._call.cancel()
        await self._tasks.close()


class PluginPeer:
    """One connection to one plugin, as a registration makes it."""

    def __init__(self, resource: str, socket: Path, recorder: Recorder, timeout: float) -> None:
        self.resource, self.socket, self.recorder, self.timeout = resource, socket, recorder, timeout
        self.channel = unix_channel(socket, ("grpc.max_receive_message_length", MAX_LIST))
        self.options = pb.DevicePluginOptions()
        self.options_exchange: Exchange | None = None
        self.lists: Lists | None = None

    def another(self) -> "PluginPeer":
        """Return another connection to the same plugin; the caller closes it."""
        return PluginPeer(self.resource, self.socket, self.recorder, self.timeout)

    def listen(self) -> Lists:
        """Call ListAndWatch."""
        self.lists = Lists(self)
        return self.lists

    async def first_list(self) -> pb.ListAndWatchResponse:
        """Wait for a list. Raises Failed."""
        lists = self.lists or self.listen()
        if not await lists.until(lambda lists: bool(lists.newest or lists.ended), self.timeout):
            raise Failed(f"ListAndWatch was open for {self.timeout:g} s without a first list")
        if lists.newest is None:
            raise Failed(f"ListAndWatch ended without a list: {lists.ended}")
        return lists.newest

    @property
    def devices(self) -> list[pb.Device]:
        newest = self.lists.newest if self.lists else None
        return list(newest.devices) if newest else []

    @property
    def ids(self) -> list[str]:
        return [device.ID for device in self.devices]

    def healthy(self, count: int = 1) -> list[str]:
        """Return the ids of all healthy devices. Raises NotApplicable if there are fewer than `count`."""
        found = list(dict.fromkeys(device.ID for device in self.devices if device.health == HEALTHY))
        if len(found) < count:
            raise NotApplicable(f"it needs {count} healthy devices, the plugin lists {len(found)}")
        return found

    async def get_options(self) -> pb.DevicePluginOptions:
        self.options = await self._call(GET_OPTIONS, pb.Empty())
        return self.options

    async def allocate(self, *containers: Sequence[str]) -> list[pb.ContainerAllocateResponse]:
        """Allocate for each of the containers; return their answers. Raises CallFailed."""
        requests = [pb.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        reply = await self._call(ALLOCATE, pb.AllocateRequest(container_requests=requests))
        return list(reply.container_responses)

    async def allocate_all(self) -> list[pb.ContainerAllocateResponse]:
        """Allocate all healthy devices for one container. Raises CallFailed, NotApplicable if that is rejected."""
        ids = self.healthy(2)
        try:
            return await self.allocate(ids)
        except CallFailed as error:
            if error.status in NO_ANSWER:
                raise
            raise NotApplicable(f"the plugin rejects {len(ids)} devices for one container: {error}") from None

    async def answers(self) -> list[pb.ContainerAllocateResponse]:
        """Return the answers for the first devices, each allocated by itself."""
        return [answer for id in self.healthy()[:SAMPLE] for answer in await self.allocate([id])]

    async def repeatable(self, id: str) -> pb.ContainerAllocateResponse | None:
        """Return the answer for one device; None if two calls do not get the same one, as with ids made for each."""
        first, second = await self.allocate([id]), await self.allocate([id])
        return first[0] if first and first == second else None

    async def preferred(self, available: Sequence[str], included: Sequence[str], size: int) -> list[list[str]]:
        """Return the plugin's choice for each container: one is asked for. Raises CallFailed."""
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=size
        )
        reply = await self._call(GET_PREFERRED, pb.PreferredAllocationRequest(container_requests=[wanted]))
        return [list(each.deviceIDs) for each in reply.container_responses]

    async def pre_start(self, ids: Sequence[str]) -> None:
        await self._call(PRE_START, pb.PreStartContainerRequest(devices_ids=ids))

    async def _call(self, method: Method[Any, Reply], request: Message) -> Reply:
        """Raises CallFailed, NotApplicable."""
        if (self.resource, method.name) in self.recorder.hung:
            raise NotApplicable(f"{method.name} was not answered in time before")
        sent = Sent(method, self.resource, request=request.SerializeToString())
        call: Any = self.channel.unary_unary(method.path)
        try:
            sent.reply = await call(sent.request, timeout=self.timeout)
            return method.reply.FromString(sent.reply)
        except grpc.aio.AioRpcError as error:
            sent.status, sent.error = error.code().name, error.details() or ""
            text = f"{method.name} was answered with {sent.status}: {sent.error}"
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                if method is not GET_OPTIONS:  # each registration asks for them
                    self.recorder.hung.add((self.resource, method.name))
                text = f"{method.name} was not answered within {self.timeout:g} s"
            raise CallFailed(sent.status, text) from None
        except DecodeError:
            sent.status, sent.error = "INTERNAL", f"not a valid {method.reply.DESCRIPTOR.name}"
            raise CallFailed("INTERNAL", f"{method.name} was answered with bytes that are {sent.error}") from None
        finally:
            exchange = sent.done()
            self.recorder.add(exchange)
            if method is GET_OPTIONS:
                self.options_exchange = exchange

    async def close(self) -> None:
        if self.lists:
            await self.lists.close()
        await self.channel.close()
