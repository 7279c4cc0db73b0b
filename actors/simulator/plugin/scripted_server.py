"""The plugin server with a script: faults before each call, and steps that change devices and answers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc
import msgspec

from actors.simulator.engine.faults import Faults
from actors.simulator.engine.playback import cut
from actors.simulator.plugin.devices import PluginDevices
from actors.simulator.plugin.script import AllocateAnswer, PluginScript, PluginStep, Strategy
from actors.simulator.plugin.server import Context, PluginOptions, PluginServer
from protocols.process.scripts import StreamEnd
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Method, Service
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START

Reply = TypeVar("Reply")


class ScriptedServer(PluginServer):
    """A plugin whose calls fail or wait as the script says at this time."""

    def __init__(
        self, options: PluginOptions, devices: PluginDevices, say: Callable[[str], None], script: PluginScript
    ) -> None:
        super().__init__(options, devices, say)
        self._script = script
        self._faults = Faults({str(method): fault for method, fault in script.calls.items()})
        self._flood = 0
        self._lists_over: bool | StreamEnd = False

    @property
    def faults(self) -> Faults:
        return self._faults

    def perform(self, step: PluginStep) -> None:
        """Apply the part of a step that concerns calls and devices, but not sockets and registration."""
        self._faults.change(step.calls, self._say)
        self._flood += step.flood
        self.changed(self.devices.apply(step))
        if step.flood or step.end:
            self._lists_over = step.end
            self._notify()

    async def cut(self) -> None:
        """Close all connections and leave the socket behind, as kill -9 does."""
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
        await self._end_list(context)

    async def _end_list(self, context: Context) -> None:
        if isinstance(self._lists_over, StreamEnd) and not self._ending:
            await context.abort(getattr(grpc.StatusCode, self._lists_over.code), self._lists_over.error)

    async def _allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:
        reply = await super()._allocate(request, context)
        first = list(request.container_requests[0].devices_ids) if request.container_requests else []
        count = self._scripted(first).containers
        if count is None:
            return reply
        repeated = list(reply.container_responses) * count
        return pb.AllocateResponse(container_responses=repeated[:count])

    def _answer(self, ids: list[str]) -> pb.ContainerAllocateResponse:
        self._say(f"allocated {', '.join(ids)}")
        return answer_for(self._scripted(ids), ids, self._options.variable)

    def _scripted(self, ids: list[str]) -> AllocateAnswer:
        return self._script.answers.get(",".join(ids), self._script.answer)

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


ALL, EACH = "$IDS", "$ID"


def answer_for(answer: AllocateAnswer, ids: list[str], variable: str) -> pb.ContainerAllocateResponse:
    """Build the response of Allocate: `$IDS` becomes all ids; a text with `$ID` is repeated for each device."""
    envs = {variable: ALL} if answer.envs is None else answer.envs
    return pb.ContainerAllocateResponse(
        envs={_all(key, ids): _all(value, ids) for key, value in envs.items()},
        annotations={_all(key, ids): _all(value, ids) for key, value in answer.annotations.items()},
        mounts=[pb.Mount(**item) for mount in answer.mounts for item in _each(mount, ids)],
        devices=[pb.DeviceSpec(**item) for device in answer.devices for item in _each(device, ids)],
        cdi_devices=[pb.CDIDevice(name=name) for text in answer.cdi for name in _texts(text, ids)],
    )


def _all(text: str, ids: list[str]) -> str:
    return text.replace(ALL, ",".join(ids))


def _texts(text: str, ids: list[str]) -> list[str]:
    is_each = EACH in text.replace(ALL, "")
    texts = [text.replace(ALL, "\0").replace(EACH, id).replace("\0", ALL) for id in ids] if is_each else [text]
    return [_all(item, ids) for item in texts]


def _each(entry: msgspec.Struct, ids: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the fields of one entry, or of one entry per device if a text contains `$ID`."""
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    texts = {name: _texts(value, ids) for name, value in fields.items() if isinstance(value, str)}
    for at in range(max(map(len, texts.values()))):
        yield {**fields, **{name: expanded[min(at, len(expanded) - 1)] for name, expanded in texts.items()}}


FOREIGN = "no-such-device"


def prefer(
    strategy: Strategy,
    available: Sequence[str],
    included: Sequence[str],
    size: int,
    numa: Mapping[str, tuple[int, ...]],
) -> list[str]:
    """Choose `size` ids, with all of `included`.

    Two strategies are faults: `few` returns one too few, `foreign` returns ids that do not exist.
    """
    rest = [id for id in available if id not in set(included)]
    ordered = [*included, *_ordered(strategy, rest, numa)]
    if strategy == "foreign":
        return [f"{FOREIGN}-{at}" for at in range(size)]
    return ordered[: size - 1] if strategy == "few" else ordered[:size]


def _ordered(strategy: Strategy, ids: list[str], numa: Mapping[str, tuple[int, ...]]) -> list[str]:
    if strategy == "last":
        return ids[::-1]
    nodes: dict[tuple[int, ...], list[str]] = {}
    for id in ids:
        nodes.setdefault(numa.get(id, ()), []).append(id)
    if strategy == "packed":  # the node with most free devices first
        return [id for node in sorted(nodes, key=lambda node: (-len(nodes[node]), node)) for id in nodes[node]]
    if strategy == "spread":  # one of each node in turn
        turns = max(map(len, nodes.values()), default=0)
        return [nodes[node][turn] for turn in range(turns) for node in sorted(nodes) if turn < len(nodes[node])]
    return ids
