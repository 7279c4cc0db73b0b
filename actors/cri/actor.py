"""cri: the node's one connection to the container runtime.

Why a process: a hung or lying runtime must not block anyone else, and every runtime call is counted in one place.
Owns: the connection; the streams `container-events` and `runtime-state`.
On kill -9: events in flight are lost; followers see a new epoch and reconcile by a relist. Nothing durable is here.
"""

import asyncio
import time

import grpc
import grpc.aio

from actors.cri.backoff import FALLEN_BACK
from actors.cri.channel import RuntimeChannel
from actors.cri.connection import Connection, Phase
from actors.cri.errors import OperationUnknown, RuntimeRefused
from actors.cri.events import EventStream, EventStreamOptions
from actors.cri.metrics import cri_metrics
from actors.cri.operations import OPERATIONS
from actors.cri.runtime import RuntimeInfo, read_status, read_version
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Call, EdgeSource, Op, StateSource, error_for
from protocols.messages import cri as messages

STATUS_S = 5.0
"""Period of the Status poll (upstream's)."""
AWAY_S = 0.1
"""Period of it while the runtime does not answer, for the first tries."""
KEY = "runtime"


class Cri:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._channel = RuntimeChannel(context.settings.runtime_endpoint)
        self._metrics = cri_metrics(context.registry)
        self._state = messages.RuntimeState()
        self._published: dict[str, messages.RuntimeState] = {}
        self._states = context.bus.own(messages.RUNTIME_STATE, StateSource(self._published))
        self._events = context.bus.own(messages.CONTAINER_EVENTS, EdgeSource())
        self._stream = EventStream(EventStreamOptions(self._channel, self._on_event, self._on_stream))
        self._poll_now = asyncio.Event()

    async def start(self) -> None:
        self._context.bus.serve(messages.CALL, messages.CriCall, self._call)
        self._context.spawn(self._watch_status(), "runtime status")
        if self._context.settings.gate("EventedPLEG"):
            self._context.spawn(self._stream.run(), "event stream")

    async def stop(self) -> None:
        await self._channel.close()

    async def _call(self, request: messages.CriCall, call: Call) -> messages.CriReply:
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            raise OperationUnknown(f"CRI operation {request.operation!r} is not passed on; use a v1 unary method")
        return messages.CriReply(await self._run(request.operation, request.request, left(call)))

    async def _run(self, name: str, request: bytes, timeout: float) -> bytes:
        operation = OPERATIONS[name]
        self._metrics.operations.labels(operation.metric).inc()
        started = time.perf_counter()
        try:
            return await self._channel.call(operation, request, timeout)
        except grpc.aio.AioRpcError as error:
            self._metrics.errors.labels(operation.metric).inc()
            raise error_for(error.code().name, error.details() or "", {"operation": name}) from None
        finally:
            self._metrics.durations.labels(operation.metric).observe(time.perf_counter() - started)

    def _on_event(self, payload: bytes) -> None:
        event = messages.ContainerEvent(payload=payload, received_ns=time.time_ns())
        self._events.publish(Op.APPEND, "", event)

    def _on_stream(self, connection: Connection, reason: str) -> None:
        streaming = connection.phase is Phase.STREAMING
        (self._metrics.connection_success if streaming else self._metrics.connection_errors).inc()
        if not streaming:
            self._poll_now.set()
        supported = connection.phase is not Phase.UNSUPPORTED
        self._publish(streaming=streaming, events_supported=supported, failures=connection.failures, message=reason)

    async def _watch_status(self) -> None:
        tries = 0
        while True:
            tries = 0 if await self._check_status() else tries + 1
            self._poll_now.clear()
            wait = STATUS_S if not tries or tries > 100 else AWAY_S
            try:
                await asyncio.wait_for(self._poll_now.wait(), wait)
            except TimeoutError:
                continue

    async def _check_status(self) -> bool:
        try:
            info = read_version(await self._run("Version", b"", STATUS_S))
            read_status(await self._run("Status", b"", STATUS_S))
        except (BusError, RuntimeRefused) as error:
            self._publish(connected=False, message=str(error))
            return False
        self._connected(info)
        return True

    def _connected(self, info: RuntimeInfo) -> None:
        if (info.name, info.version) != (self._state.name, self._state.version) and self._state.name:
            self._stream.try_again()
        message = self._state.message if self._state.connected else ""
        self._publish(connected=True, name=info.name, version=info.version, message=message)
        self._context.ready(self._note())

    def _publish(self, **changes: object) -> None:
        fields = {name: getattr(self._state, name) for name in self._state.__struct_fields__}
        state = messages.RuntimeState(**(fields | changes))
        if state != self._state or KEY not in self._published:
            self._state = state
            self._published[KEY] = state
            self._states.publish(Op.UPSERT, KEY, state)
            self._context.note(self._note())

    def _note(self) -> str:
        state = self._state
        if not state.connected:
            return f"no runtime: {state.message}"
        if state.streaming:
            return f"{state.name} {state.version}, events streaming"
        given_up = ", events given up for now" if state.failures >= FALLEN_BACK else ""
        return f"{state.name} {state.version}, no events ({state.message}){given_up}"


def left(call: Call) -> float:
    """Seconds until the caller's deadline."""
    return max(0.0, call.deadline - asyncio.get_running_loop().time())


def main(argv: list[str] | None = None) -> None:
    run_actor("cri", Cri, argv)


if __name__ == "__main__":
    main()
