"""The plugin that does what a script says: server.py with faults before each call and steps that change its mind."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from protocols.wire.methods import Method, Service
from supervisor.plugin.answer import answer_for
from supervisor.plugin.devices import Devices
from supervisor.plugin.preferred import prefer
from supervisor.plugin.script import PluginScript, PluginStep
from supervisor.plugin.server import Context, PluginServer
from supervisor.plugin.types import PluginOptions
from supervisor.scripted.faults import Faults
from supervisor.scripted.playing import cut

Reply = TypeVar("Reply")


class ScriptedServer(PluginServer):
    def __init__(
        self, options: PluginOptions, devices: Devices, say: Callable[[str], None], script: PluginScript
    ) -> None:
        super().__init__(options, devices, say)
        self._script = script
        self._faults = Faults({str(method): fault for method, fault in script.calls.items()})
        self._flood = 0
        self._lists_over = False

    def perform(self, step: PluginStep) -> None:
        """What of a step concerns the calls; sockets and registration are the director's."""
        self._faults.change(step.calls, self._say)
        self._flood += step.flood
        self.changed(self.devices.apply(step))
        if step.flood or step.end:
            self._lists_over = step.end
            self._notify()

    async def cut(self) -> None:
        """As kill -9 would: no last word, no tidying."""
        if self._server is not None:
            self._ending = True
            await cut(self._server, self._options.socket)
            self._server = None

    def _service(self) -> Service:
        service = Service().stream(LIST_AND_WATCH, self._list_and_watch)
        for method, call in (
            (GET_OPTIONS, self._get_options),
            (ALLOCATE, self._allocate),
            (PRE_START, self._pre_start),
            (GET_PREFERRED, self._get_preferred),
        ):
            service.unary(method, self._after_faults(method, call))
        return service

    def _after_faults(
        self, method: Method[Any, Any], call: Callable[[Any, Context], Awaitable[Reply]]
    ) -> Callable[[Any, Context], Awaitable[Reply]]:
        async def meet_and_call(request: Any, context: Context) -> Reply:
            await self._faults.meet(method.name, context)
            return await call(request, context)

        return meet_and_call

    async def _get_options(self, request: pb.Empty, context: Context) -> pb.DevicePluginOptions:
        offered = self._script.preferred is not None
        return pb.DevicePluginOptions(
            pre_start_required=self._script.pre_start, get_preferred_allocation_available=offered
        )

    async def _list_and_watch(self, request: pb.Empty, context: Context) -> AsyncIterator[pb.ListAndWatchResponse]:
        self._lists_over = False
        while not (self._ending or self._lists_over):
            changed = self._changed
            await self._faults.meet(LIST_AND_WATCH.name, context)
            yield self._list()
            while self._flood > 0:
                self._flood -= 1
                yield self._list()
            await changed.wait()

    def _answer(self, ids: list[str]) -> pb.ContainerAllocateResponse:
        self._say(f"allocated {', '.join(ids)}")
        return answer_for(self._script.answer, ids, self._options.variable)

    async def _pre_start(self, request: pb.PreStartContainerRequest, context: Context) -> pb.PreStartContainerResponse:
        self._say(f"container about to start with {', '.join(request.devices_ids)}")
        return pb.PreStartContainerResponse()

    async def _get_preferred(
        self, request: pb.PreferredAllocationRequest, context: Context
    ) -> pb.PreferredAllocationResponse:
        answers = [
            pb.ContainerPreferredAllocationResponse(
                deviceIDs=prefer(
                    self._script.preferred or "first",
                    wanted.available_deviceIDs,
                    wanted.must_include_deviceIDs,
                    wanted.allocation_size,
                    self.devices.numa(),
                )
            )
            for wanted in request.container_requests
        ]
        return pb.PreferredAllocationResponse(container_responses=answers)
