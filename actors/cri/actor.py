"""cri: the node's only connection to the container runtime.

A process of its own, so that a hung runtime blocks no other process and every runtime call is counted in one place.
Owns the connection and the streams `container-events` and `runtime-state`.
On kill -9 events in flight are lost; followers see a new epoch and relist. Nothing here is durable.
"""

import asyncio
import time

import grpc
import grpc.aio

from actors.cri.event_stream import FALLEN_BACK, EventConnection, EventStream, EventStreamOptions, Phase
from actors.cri.fault_injection import InjectedFaults
from actors.cri.operations import EVENTS_METRIC, OPERATIONS, STREAMED, OperationUnknown, cri_metrics
from actors.cri.runtime_client import Lists, ListTooLong, RuntimeChannel, Streaming
from actors.cri.runtime_status import RuntimeReport, StatusPoller, StatusPollerOptions
from protocols.actor import Context, run_actor
from protocols.bus import Call, EdgeSource, Op, StateSource, error_for
from protocols.messages import cri as messages

KEY = "runtime"
RING = 16_384
"""Journal of events for a pleg that falls behind: seconds of an event storm, after which it must relist."""
REORDER_S = 0.1
"""Longest time that the fault reorder-events holds an event back."""


class Cri:
    """Passes calls on, publishes events and the runtime's state."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._gate = context.settings.gate("EventedPLEG")
        self._channel = RuntimeChannel(context.settings.runtime_endpoint)
        self._events_channel = RuntimeChannel(context.settings.runtime_endpoint)
        self._lists = Lists(self._channel)
        self._metrics = cri_metrics(context.registry, self._gate)
        self._faults = InjectedFaults()
        self._reason = ""
        """Why the event stream is not open; empty if it is."""
        self._state = messages.RuntimeState()
        self._published: dict[str, messages.RuntimeState] = {}
        self._states = context.bus.own(messages.RUNTIME_STATE, StateSource(self._published))
        self._events = context.bus.own(messages.CONTAINER_EVENTS, EdgeSource(), ring=RING)
        self._stream = EventStream(EventStreamOptions(self._events_channel, self._on_event, self._on_stream))
        self._poller = StatusPoller(
            StatusPollerOptions(self._run, self._on_connected, self._on_failure, self._on_silent)
        )

    async def start(self) -> None:
        self._context.bus.serve(messages.CALL, messages.CriCall, self._call)
        self._context.bus.serve(messages.CHAOS, messages.ChaosRuntime, self._chaos)
        self._context.spawn(self._poller.run(), "runtime status")
        if self._gate:
            self._context.spawn(self._stream.run(), "event stream")

    async def stop(self) -> None:
        self._channel.close()
        self._events_channel.close()

    # calls

    async def _call(self, request: messages.CriCall, call: Call) -> messages.CriReply:
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            raise OperationUnknown(f"CRI operation {request.operation!r} is not passed on; use a v1 unary method")
        reply = await self._run(request.operation, request.request, _remaining_s(call))
        if request.operation == "PodSandboxStatus":
            reply = self._faults.shifted_status(reply)
        return messages.CriReply(reply)

    async def _run(self, name: str, request: bytes, timeout: float) -> bytes:
        operation = OPERATIONS[name]
        self._metrics.operations.labels(operation.metric).inc()
        started = time.perf_counter()
        try:
            if name in STREAMED:
                return await self._lists.call(name, operation, request, timeout)
            return await self._channel.call(operation, request, timeout)
        except ListTooLong:
            self._metrics.errors.labels(operation.metric).inc()
            raise
        except grpc.aio.AioRpcError as error:
            self._metrics.errors.labels(operation.metric).inc()
            raise error_for(error.code().name, _message(name, error), _details(name, error)) from None
        finally:
            self._metrics.durations.labels(operation.metric).observe(time.perf_counter() - started)

    # events

    def _on_event(self, payload: bytes) -> None:
        for passed in self._faults.apply(payload):
            self._publish_event(passed)
        if self._faults.fault == messages.REORDER:
            asyncio.get_running_loop().call_later(REORDER_S, self._flush)

    def _flush(self) -> None:
        if self._faults.fault == messages.REORDER:
            for held in self._faults.flush():
                self._publish_event(held)

    def _publish_event(self, payload: bytes) -> None:
        event = messages.ContainerEvent(payload=payload, received_ns=time.time_ns())
        self._events.publish(Op.APPEND, "", event)

    async def _chaos(self, request: messages.ChaosRuntime, call: Call) -> messages.Empty:
        for held in self._faults.set(request):
            self._publish_event(held)
        if request.fault == messages.DISCONNECT:
            self._stream.cut("cut by nodeplane chaos")
        self._context.note(self._note())
        return messages.Empty()

    def _on_stream(self, connection: EventConnection, reason: str) -> None:
        streaming = connection.phase is Phase.STREAMING
        self._count(streaming)
        self._reason = reason
        if not streaming:
            self._poller.poll_now()
        supported = connection.phase is not Phase.UNSUPPORTED
        self._publish(streaming=streaming, events_supported=supported, failures=connection.failures, message=reason)

    def _count(self, streaming: bool) -> None:
        """Count the stream as one operation from its opening to its end."""
        (self._metrics.connection_success if streaming else self._metrics.connection_errors).inc()
        if streaming or not self._state.streaming:
            self._metrics.operations.labels(EVENTS_METRIC).inc()
        if not streaming:
            self._metrics.errors.labels(EVENTS_METRIC).inc()

    # state of the runtime

    def _on_connected(self, report: RuntimeReport) -> None:
        info = report.info
        back = not self._state.connected and self._stream.connection.phase is Phase.BROKEN
        other = self._state.name and (info.name, info.version) != (self._state.name, self._state.version)
        if back or other:
            self._stream.try_again()
        if other or self._lists.streaming is Streaming.UNKNOWN:
            self._context.spawn(self._lists.probe(), "streaming lists")
        self._publish(
            connected=True,
            name=info.name,
            version=info.version,
            network=report.network,
            message=self._reason,
            handlers=report.handlers,
            strict_groups=report.strict_groups,
            newest_event=report.newest_event,
        )
        self._context.ready(self._note())

    def _on_failure(self, reason: str) -> None:
        self._publish(connected=False, message=reason)

    def _on_silent(self) -> None:
        self._stream.cut("the runtime has been silent for 30 s")

    def _publish(self, **changes: object) -> None:
        fields = {name: getattr(self._state, name) for name in self._state.__struct_fields__}
        state = messages.RuntimeState(**(fields | changes))
        if state != self._state or KEY not in self._published:
            self._state = state
            self._published[KEY] = state
            self._states.publish(Op.UPSERT, KEY, state)
            self._context.note(self._note())

    def _note(self) -> str:
        chaos = f", chaos: {self._faults.fault}" if self._faults.fault else ""
        return runtime_note(self._state, self._gate) + chaos


def runtime_note(state: messages.RuntimeState, gate: bool) -> str:
    """Return one line for `nodeplane status`."""
    if not state.connected:
        return f"no runtime: {state.message}"
    network = f", pods get no network of their own ({state.network})" if state.network else ""
    return _events_note(state, gate) + network


def _events_note(state: messages.RuntimeState, gate: bool) -> str:
    who = f"{state.name} {state.version}"
    if not gate:
        return f"{who}, events off (feature gate EventedPLEG)"
    if state.streaming:
        return f"{who}, events streaming"
    given_up = ", events given up for now" if state.failures >= FALLEN_BACK else ""
    return f"{who}, no events ({state.message or 'not open yet'}){given_up}"


def _message(operation: str, error: grpc.aio.AioRpcError) -> str:
    """Return the runtime's message, or one that names the operation when our deadline passed."""
    if _deadline_was_ours(error):
        return f"the runtime did not answer {operation} in time"
    return error.details() or ""


def _details(operation: str, error: grpc.aio.AioRpcError) -> dict[str, str]:
    return {"operation": operation} | ({} if _deadline_was_ours(error) else {messages.ANSWERED: "true"})


def _deadline_was_ours(error: grpc.aio.AioRpcError) -> bool:
    """True if our own deadline passed; for a command that ran too long the runtime sends a message of its own."""
    return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and error.details() == "Deadline Exceeded"


def _remaining_s(call: Call) -> float:
    return max(0.0, call.deadline - asyncio.get_running_loop().time())


def main(argv: list[str] | None = None) -> None:
    run_actor("cri", Cri, argv)


if __name__ == "__main__":
    main()
