"""Stands for grpc.aio.Channel: connects by path, reconnects with back-off, and starts calls."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from tests.simulation.calls.call import Serializer, SimStreamCall, SimUnaryCall
from tests.simulation.calls.connection import Connection

if TYPE_CHECKING:
    from tests.simulation.calls.call import SimCall
    from tests.simulation.calls.sockets import Sockets
    from tests.simulation.world.process import Process

State = grpc.ChannelConnectivity
FACTOR, JITTER = 1.6, 0.2
DEFAULTS = {"initial": 1000.0, "min": 20_000.0, "max": 120_000.0}
"""Milliseconds of gRPC's reconnect back-off; `min` is the deadline of an attempt."""


class SimChannel:
    """IDLE until the first call. After a failure it tries again by itself; after a lost connection it is IDLE again."""

    def __init__(
        self, sockets: "Sockets", process: "Process", target: str, options: Iterable[tuple[str, Any]] = ()
    ) -> None:
        self.sockets, self.process = sockets, process
        self.path = Path("/" + target.removeprefix("unix:").lstrip("/"))
        given = dict(options)
        self._backoffs = {
            name: float(given.get(f"grpc.{name}_reconnect_backoff_ms", ms)) / 1000 for name, ms in DEFAULTS.items()
        }
        self.state = State.IDLE
        self.connection: Connection | None = None
        self._calls: dict[int, SimCall] = {}
        """Calls that have not ended, by number."""
        self._waiting: list[SimCall] = []
        """Calls that wait for the first attempt."""
        self._changed = asyncio.Event()
        self._attempt = self._failures = self._numbers = 0

    # what product code uses

    def unary_unary(
        self, path: str, request_serializer: Serializer | None = None, response_deserializer: Serializer | None = None
    ) -> Callable[..., SimUnaryCall]:
        def call(request: Any, **options: Any) -> SimUnaryCall:
            return SimUnaryCall(self, path, _bytes(request, request_serializer), response_deserializer, **options)

        return call

    def unary_stream(
        self, path: str, request_serializer: Serializer | None = None, response_deserializer: Serializer | None = None
    ) -> Callable[..., SimStreamCall]:
        def call(request: Any, **options: Any) -> SimStreamCall:
            return SimStreamCall(self, path, _bytes(request, request_serializer), response_deserializer, **options)

        return call

    def get_state(self, try_to_connect: bool = False) -> State:
        if try_to_connect and self.state is State.IDLE:
            self._connect()
        return self.state

    async def wait_for_state_change(self, last_observed_state: State) -> None:
        while self.state is last_observed_state:
            await self._changed.wait()

    async def channel_ready(self) -> None:
        while (state := self.get_state(try_to_connect=True)) is not State.READY:
            await self.wait_for_state_change(state)

    async def close(self, grace: float | None = None) -> None:
        if self.state is State.SHUTDOWN:
            return
        for call in [*self._waiting, *self._calls.values()]:
            call.cancel()
        self._waiting.clear()
        self._set(State.SHUTDOWN)
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    async def __aenter__(self) -> "SimChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # calls

    def begin(self, call: "SimCall") -> int:
        """Send the call now, or once the channel knows if there is a server. Return its number."""
        self._numbers += 1
        if self.state is State.SHUTDOWN:
            raise grpc.aio.UsageError("Channel is closed.")
        if self.state is State.READY:
            self._calls[self._numbers] = call
            call.send()
        elif self.state is State.TRANSIENT_FAILURE:
            asyncio.get_running_loop().call_soon(call.finish, *self._unreachable())
        else:
            self._waiting.append(call)
            self.get_state(try_to_connect=True)
        return self._numbers

    def forget(self, number: int, call: "SimCall") -> None:
        self._calls.pop(number, None)
        if call in self._waiting:
            self._waiting.remove(call)

    # the connection

    def _set(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self._changed.set()
            self._changed = asyncio.Event()

    def _connect(self) -> None:
        if self.state is State.SHUTDOWN:
            return
        if self.state is not State.TRANSIENT_FAILURE:
            self._set(State.CONNECTING)
        self._attempt += 1
        number, world = self._attempt, self.sockets.world
        world.at(world.latency() / 4, self.process, lambda: self._dial(number))

    def _dial(self, number: int) -> None:
        if number != self._attempt or self.state is State.SHUTDOWN:
            return
        server = self.sockets.find(self.path)
        if server is None:
            self._failed()
            return
        self.connection = Connection(self.sockets, self.process, server, self)
        dialled = self.connection
        self.process.loop.call_later(max(self._backoffs["min"], 0.1), self._give_up, dialled)

    def _give_up(self, dialled: Connection) -> None:
        """Nobody has accepted it in time: the server's process is paused."""
        if self.connection is dialled and self.state not in (State.READY, State.SHUTDOWN):
            self.connection = None
            dialled.close()
            self._failed()

    def connected(self, connection: Connection) -> None:
        if connection is not self.connection or self.state is State.SHUTDOWN:
            return
        self._failures = 0
        self._set(State.READY)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._calls[call.number] = call
            call.send()

    def disconnected(self, connection: Connection) -> None:
        if connection is not self.connection:
            return
        self.connection = None
        was_ready = self.state is State.READY
        if was_ready:
            self._set(State.IDLE)
            for call in list(self._calls.values()):
                call.finish(*connection.ending())
        elif self.state is not State.SHUTDOWN:
            self._failed()

    def _failed(self) -> None:
        """Fail who waits, and try again after the back-off."""
        self._set(State.TRANSIENT_FAILURE)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.finish(*self._unreachable())
        first, most = self._backoffs["initial"], self._backoffs["max"]
        delay = min(first * FACTOR**self._failures, most)
        self._failures += 1
        delay *= 1 + JITTER * (2 * self.sockets.chance.random() - 1)
        self.process.loop.call_later(delay, self._connect)

    def _unreachable(self) -> tuple[grpc.StatusCode, str]:
        return grpc.StatusCode.UNAVAILABLE, f"failed to connect to all addresses; last error: unix:{self.path}"


def _bytes(request: Any, serializer: Serializer | None) -> bytes:
    return bytes(serializer(request) if serializer is not None else request)
