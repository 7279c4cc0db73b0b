"""Which of the services a driver advertises are used. Pure."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from actors.devices.dra.errors import DriverFailed, HealthUnimplemented
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import ClaimInfo, DraLimits, PreparedDevice
from actors.devices.model.errors import RegistrationRefused, describe
from protocols.errors import NodeplaneError
from protocols.wire.dra import (
    DRA_V1,
    DRA_V1BETA1,
    HEALTH_V1,
    HEALTH_V1ALPHA1,
    NODE_HEALTH,
    PREPARE,
    UNPREPARE,
    WATCH_DEVICES_STATUS,
    WATCH_RESOURCES,
)
from protocols.wire.methods import Method, unix_channel

SUPPORTED = (DRA_V1, DRA_V1BETA1)
HEALTH = (HEALTH_V1, HEALTH_V1ALPHA1, NODE_HEALTH)
"""Best first; one is used, however many are offered."""
LONGEST_NAME = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def choose_service(driver: str, endpoint: str, versions: Sequence[str]) -> str:
    """The first of the driver's own list that we know; raises RegistrationRefused in upstream's words."""
    if len(driver) > LONGEST_NAME or not _NAME.fullmatch(driver.lower()):
        raise RegistrationRefused(f'the driver name "{driver[:253]}" is invalid: it must be a DNS subdomain')
    where = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
    if not versions:
        raise RegistrationRefused(f"{where}: empty list of supported gRPC services (aka supported versions)")
    for version in versions:
        if version in SUPPORTED:
            return version
    raise RegistrationRefused(
        f"{where}: none of services supported by the plugin ({_listed(versions)}) are supported by the kubelet "
        f"({_listed(SUPPORTED)})"
    )


def choose_health(versions: Sequence[str]) -> str:
    """Empty when none is advertised."""
    return next((service for service in HEALTH if service in versions), "")


def _listed(versions: Sequence[str]) -> str:
    return "[" + " ".join(f'"{version[:64]}"' for version in versions[:16]) + "]"


MOST_DEVICES = 1024
"""Of one claim; its allocation has at most 32, and what is kept here goes into every List of the node."""
PREPARE_METHOD, UNPREPARE_METHOD = "NodePrepareResources", "NodeUnprepareResources"


class Outcome:
    """Of one call for several claims: which went well, and the first thing that did not."""

    def __init__(self) -> None:
        self.done: dict[str, tuple[PreparedDevice, ...]] = {}
        """By claim uid."""
        self.error: NodeplaneError | None = None


def read_reply(method: str, asked: Sequence[ClaimInfo], reply: Any) -> Outcome:
    """`reply` is any version's answer to `method`. One bad claim does not undo the good ones."""
    outcome, claims = Outcome(), {claim.uid: claim for claim in asked}
    for uid in sorted(reply.claims):
        answer = reply.claims[uid]
        if uid not in claims:
            _fail(outcome, f"{method} returned result for unknown claim UID {uid}")
        elif answer.error:
            _fail(outcome, f"{method} failed for ResourceClaim {claims[uid].name}: {answer.error}")
        elif method == PREPARE_METHOD and len(answer.devices) > MOST_DEVICES:
            _fail(outcome, f"{method} returned {len(answer.devices)} devices for ResourceClaim {claims[uid].name}")
        else:
            outcome.done[uid] = tuple(_device(item) for item in answer.devices) if method == PREPARE_METHOD else ()
    skipped = len(asked) - len(reply.claims)
    if skipped > 0:
        _fail(outcome, f"{method} skipped {skipped} ResourceClaims")
    return outcome


def _fail(outcome: Outcome, text: str) -> None:
    outcome.error = outcome.error or DriverFailed(" ".join(text.split()))


def _device(device: Any) -> PreparedDevice:
    shared = "share_id" in device.DESCRIPTOR.fields_by_name
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_devices=tuple(device.cdi_device_ids),
        share_id=device.share_id if shared else "",
    )


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
        return await self._ask(PREPARE_METHOD, PREPARE[self.options.service], claims)

    async def unprepare(self, claims: Sequence[ClaimInfo]) -> Outcome:
        return await self._ask(UNPREPARE_METHOD, UNPREPARE[self.options.service], claims)

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
