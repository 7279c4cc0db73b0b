"""One connection to one instance of a driver, for every call of ours to it, its health included."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from actors.devices.dra.errors import DriverFailed, HealthUnimplemented
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.replies import PREPARE as PREPARE_NAME
from actors.devices.dra.replies import UNPREPARE as UNPREPARE_NAME
from actors.devices.dra.replies import Outcome, read_reply
from actors.devices.dra.types import ClaimInfo, DraLimits
from actors.devices.plugins.describe import describe
from protocols.wire.dra import NODE_HEALTH, PREPARE, UNPREPARE, WATCH_DEVICES_STATUS, WATCH_RESOURCES
from protocols.wire.methods import Method, unix_channel

NEVER_IDLE = ("grpc.client_idle_timeout_ms", 2**31 - 1)
"""An idle connection would be let go, and with it the knowledge whether the driver lives."""
RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 3000),
)


@dataclass(frozen=True)
class InstanceOptions:
    driver: str
    endpoint: str
    service: str
    """v1.DRAPlugin or v1beta1.DRAPlugin."""
    health: str
    """Its health service; empty = none."""
    number: int
    """Newer instances have greater ones."""
    limits: DraLimits
    metrics: DraMetrics
    changed: Callable[[], None]
    """It is connected, or no longer."""


class Instance:
    """Identity matters: a driver that registers again on the same socket is another instance."""

    def __init__(self, options: InstanceOptions) -> None:
        self.options = options
        self.connected = False
        self.gone = False
        self._state = asyncio.Event()
        self._channel = unix_channel(options.endpoint, NEVER_IDLE, *RECONNECT)
        self._task = asyncio.create_task(self._watch(), name=f"connection to {options.driver}")

    async def close(self) -> None:
        self.gone = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._turn(False)
        await self._channel.close()

    async def changed(self) -> None:
        """Until the connection comes or goes."""
        await self._state.wait()

    async def _watch(self) -> None:
        """Dial now, and at once after a loss: whether a driver lives is known without asking it anything."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            self._turn(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    def _turn(self, connected: bool) -> None:
        if connected == self.connected:
            return
        self.connected = connected
        self._state.set()
        self._state = asyncio.Event()
        self.options.changed()

    async def prepare(self, claims: Sequence[ClaimInfo]) -> Outcome:
        return await self._ask(PREPARE_NAME, PREPARE[self.options.service], claims)

    async def unprepare(self, claims: Sequence[ClaimInfo]) -> Outcome:
        return await self._ask(UNPREPARE_NAME, UNPREPARE[self.options.service], claims)

    async def _ask(self, name: str, method: Method[Any, Any], claims: Sequence[ClaimInfo]) -> Outcome:
        """All claims in one call; whatever goes wrong stands in the outcome."""
        request = method.request()
        for claim in claims:
            request.claims.add(namespace=claim.namespace, uid=claim.uid, name=claim.name)
        begin, code = time.perf_counter(), "OK"
        try:
            reply = await method.unary(self._channel)(request, timeout=self.options.limits.call)
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            return failed(f"{name}: {describe(error)}")
        finally:
            self.options.metrics.call(self.options.driver, method.path, _camel(code), time.perf_counter() - begin)
        return read_reply(name, claims, reply)

    async def health(self) -> AsyncIterator[Any]:
        """The messages of its health stream until it ends; raises DriverFailed or HealthUnimplemented then."""
        method = WATCH_DEVICES_STATUS if self.options.health == NODE_HEALTH else WATCH_RESOURCES[self.options.health]
        try:
            async for message in method.stream(self._channel)(method.request()):
                yield message
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise HealthUnimplemented(f"{self.options.driver} does not implement {self.options.health}") from None
            raise DriverFailed(f"its health stream ended: {describe(error)}") from None
        raise DriverFailed("its health stream ended: the driver closed it")


def failed(text: str) -> Outcome:
    outcome = Outcome()
    outcome.error = DriverFailed(text)
    return outcome


def _camel(code: str) -> str:
    """OK, DeadlineExceeded: as Go's libraries write them."""
    return code if code == "OK" else "".join(word.capitalize() for word in code.split("_"))
