"""The played server of the pod resources API: it counts calls, fails on order, ends and starts anew.

It serves what is published, without the extensions of nodeplane: an agent must do without them beside a kubelet.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import Message

from protocols.process.sockets import prepare_socket
from protocols.wire import podresources_v1_pb2 as pb
from protocols.wire.methods import Method, Service
from protocols.wire.pod_resources import (
    GET,
    GET_ALLOCATABLE,
    LIST,
    LIST_AND_WATCH,
    LIST_AND_WATCH_ALLOCATABLE,
    LIST_V1ALPHA1,
)
from supervisor.base.errors import SupervisorError
from supervisor.conform.agent.node_pods import NodePods
from supervisor.conform.exchange import ExchangeRecorder, Sent
from supervisor.conform.linked_server import LinkedServer
from supervisor.conform.profiles import Profile
from supervisor.conform.waiting import ChangeSignal

Context = grpc.aio.ServicerContext[Any, Any]
MAX_CALLS = 10_000
WAIT_S = 3600.0
STREAMS = (LIST_AND_WATCH, LIST_AND_WATCH_ALLOCATABLE)
CODES = {code.name: code for code in grpc.StatusCode}


class PodUnknown(SupervisorError, grpc="UNKNOWN"):
    """Raised for a Get of a pod that the node does not have; kubelet answers with UNKNOWN."""


class ServedCall(NamedTuple):
    """One call of an agent."""

    method: str
    at: float
    """Time of time.monotonic."""
    streams: bool
    seconds: float | None
    """The deadline that it has; None without one."""


class ResourcesServer:
    """Serves `DIRECTORY/pod-resources/kubelet.sock`."""

    def __init__(self, directory: Path, recorder: ExchangeRecorder, profile: Profile) -> None:
        self.socket = directory / "pod-resources" / "kubelet.sock"
        self.recorder = recorder
        self.changes = ChangeSignal()
        self.pods = NodePods(profile)
        self.calls: deque[ServedCall] = deque(maxlen=MAX_CALLS)
        self.failing = ""
        """Code of all calls, empty for none."""
        self.hanging = False
        """No call is answered."""
        self.unsupported: tuple[str, ...] = ()
        """Methods that are answered with UNIMPLEMENTED."""
        self.open = 0
        """Streams that are open."""
        self.sent = 0
        """Position of the last event that a stream took."""
        self.counted = 0
        """Calls of all time."""
        self._server = LinkedServer(directory, self.socket)
        self._incarnation = 0

    async def start(self) -> None:
        """Raises SocketInUse."""
        prepare_socket(self.socket)
        self._incarnation += 1
        await self._server.start(service.handler() for service in self._services())

    async def stop(self) -> None:
        """End as a killed kubelet does: connections break, and the socket is gone with the start of the next."""
        self._server.hide()
        self._incarnation += 1
        self.changes.notify()
        await self._server.stop()

    def connections(self) -> int:
        """Return the number of open connections."""
        return self._server.connections()

    def _services(self) -> list[Service]:
        lister = Service().unary(LIST, self._unary(LIST, lambda request: self.pods.listed()))
        lister.unary(GET, self._unary(GET, self._get))
        lister.unary(GET_ALLOCATABLE, self._unary(GET_ALLOCATABLE, lambda request: self.pods.allocatable()))
        for method in STREAMS:
            lister.stream(method, self._stream(method))
        old = self._unary(LIST_V1ALPHA1, lambda request: self.pods.listed_v1alpha1())
        return [lister, Service().unary(LIST_V1ALPHA1, old)]

    def _get(self, request: pb.GetPodResourcesRequest) -> pb.GetPodResourcesResponse:
        namespace, name = request.pod_namespace, request.pod_name
        if (namespace, name) not in self.pods.pods:
            raise PodUnknown(f"pod {name} in namespace {namespace} not found")
        return pb.GetPodResourcesResponse(pod_resources=self.pods.pods[namespace, name])

    def _unary(
        self, method: Method[Any, Any], answer: Callable[[Any], Message]
    ) -> Callable[[Any, Context], Awaitable[Message]]:
        async def call(request: Any, context: Context) -> Message:
            sent = Sent(method, "agent", incoming=True, request=request.SerializeToString())
            await self._begin(sent, context)
            try:
                reply = answer(request)
            except PodUnknown as error:
                await self._fail(sent, "UNKNOWN", str(error), context)
                raise
            sent.reply = reply.SerializeToString()
            self.recorder.add(sent.done())
            return reply

        return call

    async def _begin(self, sent: Sent, context: Context) -> None:
        """Count the call, and fail it if that is ordered."""
        seconds = context.time_remaining()
        streams = sent.method in STREAMS
        self.calls.append(ServedCall(sent.method.name, time.monotonic(), streams, seconds))
        self.counted += 1
        self.changes.notify()
        await self.changes.until(lambda: not self.hanging, WAIT_S)
        code = "UNIMPLEMENTED" if sent.method.name in self.unsupported else self.failing
        if code:
            await self._fail(sent, code, "nodeplane conform answers so", context)

    async def _fail(self, sent: Sent, code: str, error: str, context: Context) -> None:
        """Answer a call with an error; `abort` raises."""
        sent.status, sent.error = code, error
        self.recorder.add(sent.done())
        await context.abort(CODES[code], error)

    def _stream(self, method: Method[Any, Any]) -> Callable[[Any, Context], AsyncIterator[Any]]:
        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            sent = Sent(method, "agent", incoming=True, request=request.SerializeToString(), streamed=True)
            begin = self.pods.count
            await self._begin(sent, context)
            self.open += 1  # with the call, before anything is awaited: who sees the call must see the stream
            try:
                self.recorder.add(sent.done())
                await context.send_initial_metadata(())
                async for event in self._events(method, begin):
                    yield event
            finally:
                self.open -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the kubelet ends")  # a killed one ends no stream cleanly

        return call

    async def _events(self, method: Method[Any, Any], at: int) -> AsyncIterator[Any]:
        """Yield events until this incarnation ends."""
        incarnation = self._incarnation
        while incarnation == self._incarnation:
            for change in (
                [logged for logged in self.pods.log if logged.position > at] if method is LIST_AND_WATCH else ()
            ):
                yield change.event
                at = change.position
                self.sent = max(self.sent, at)
            await self._newer(at, incarnation)

    async def _newer(self, at: int, incarnation: int) -> None:
        await self.changes.until(lambda: self.pods.count > at or incarnation != self._incarnation, WAIT_S)
