"""kubelet's side of the DevicePlugin service: its calls, and the lists of one plugin."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

from protocols.messages.devices import HEALTHY
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from supervisor.conform.caller import NO_ANSWER, CallStream, ServicePeer
from supervisor.conform.exchange import Exchange, ExchangeRecorder
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

PRE_START_S = 30.0
"""kubelet's deadline for PreStartContainer."""
SAMPLE = 8
"""Devices that are allocated to see what an answer looks like."""
Lists: TypeAlias = CallStream[pb.ListAndWatchResponse]


class PluginPeer(ServicePeer):
    """One connection to one plugin, as a registration makes it."""

    ALWAYS_ASKED: ClassVar[tuple[str, ...]] = (GET_OPTIONS.name,)  # at each registration

    def __init__(self, resource: str, socket: Path, recorder: ExchangeRecorder, timeout: float) -> None:
        super().__init__(resource, socket, recorder, timeout)
        self.resource = resource
        self.options = pb.DevicePluginOptions()
        self.options_exchange: Exchange | None = None
        self.lists: Lists | None = None

    def evidence(self) -> Sequence[Exchange | None]:
        return [self.lists.first if self.lists else None]

    def another(self) -> "PluginPeer":
        """Return another connection to the same plugin; the caller closes it."""
        return PluginPeer(self.resource, self.socket, self.recorder, self.timeout)

    def listen(self) -> Lists:
        """Call ListAndWatch."""
        self.lists = CallStream(self, LIST_AND_WATCH)
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
        ids = list(dict.fromkeys(device.ID for device in self.devices if device.health == HEALTHY))
        if len(ids) < count:
            raise NotApplicable(f"it needs {count} healthy devices, the plugin lists {len(ids)}")
        return ids

    async def get_options(self) -> pb.DevicePluginOptions:
        try:
            self.options = await self.call(GET_OPTIONS, pb.Empty())
        finally:
            self.options_exchange = self.last
        return self.options

    async def probe(self) -> None:
        await self.get_options()

    async def allocate(self, *containers: Sequence[str]) -> list[pb.ContainerAllocateResponse]:
        """Allocate for each of the containers; return their answers. Raises CallFailed."""
        requests = [pb.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        reply = await self.call(ALLOCATE, pb.AllocateRequest(container_requests=requests))
        return list(reply.container_responses)

    async def allocate_all(self) -> list[pb.ContainerAllocateResponse]:
        """Allocate all healthy devices for one container. Raises as `allocate_together`."""
        return await self.allocate_together(self.healthy(2))

    async def allocate_together(self, ids: Sequence[str]) -> list[pb.ContainerAllocateResponse]:
        """Allocate for one container. Raises CallFailed, NotApplicable if that is rejected: some give one device."""
        try:
            return await self.allocate(ids)
        except CallFailed as error:
            if error.status in NO_ANSWER:
                raise
            raise NotApplicable(f"the plugin rejects {len(ids)} devices for one container: {error}") from None

    async def answers(self) -> list[pb.ContainerAllocateResponse]:
        """Return the answers for the first devices, each allocated by itself."""
        return [answer for id in self.healthy()[:SAMPLE] for answer in await self.allocate([id])]

    async def all_answers(self) -> list[pb.ContainerAllocateResponse]:
        """Return these, and that for all devices in one container if the plugin gives them."""
        try:
            return [*await self.answers(), *await self.allocate_all()]
        except NotApplicable:
            return await self.answers()

    async def repeatable(self, id: str) -> pb.ContainerAllocateResponse | None:
        """Return the answer for one device; None if two calls do not get the same one, as with ids made for each."""
        first, second = await self.allocate([id]), await self.allocate([id])
        return first[0] if first and first == second else None

    async def preferred(self, available: Sequence[str], included: Sequence[str], size: int) -> list[list[str]]:
        """Return the plugin's choice for each container: one is asked for. Raises CallFailed."""
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=size
        )
        reply = await self.call(GET_PREFERRED, pb.PreferredAllocationRequest(container_requests=[wanted]))
        return [list(response.deviceIDs) for response in reply.container_responses]

    async def pre_start(self, ids: Sequence[str]) -> None:
        await self.call(PRE_START, pb.PreStartContainerRequest(devices_ids=ids), PRE_START_S)

    async def close(self) -> None:
        if self.lists:
            await self.lists.close()
        await super().close()
