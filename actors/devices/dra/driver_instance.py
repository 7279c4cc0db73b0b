"""One connection to one instance of a DRA driver: service selection, prepare and unprepare calls, health stream.

Error messages are upstream's; pods show them.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
import msgspec

from actors.devices.calls.log import CallLog, CallPeer, Purpose, RecordedCall, StreamMessage
from actors.devices.calls.outcomes import claims_outcome
from actors.devices.dra.errors import DriverFailed, HealthUnimplemented
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import DraLimits
from actors.devices.model.errors import RegistrationRejected, describe, go_code
from protocols.errors import NodeplaneError
from protocols.lifecycle.devices.types import ClaimInfo, PreparedDevice
from protocols.process.tasks import awaited, cancel, restarted
from protocols.trace import span
from protocols.wire.methods import Method, plugin_channel
from protocols.wire.plugins import (
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

SUPPORTED = (DRA_V1, DRA_V1BETA1)
HEALTH = (HEALTH_V1, HEALTH_V1ALPHA1, NODE_HEALTH)
"""Health services in order of preference; only one is used."""
MAX_NAME_LENGTH = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def choose_service(driver: str, endpoint: str, versions: Sequence[str]) -> str:
    """Return the first service of the driver's own list that is supported. Raises RegistrationRejected."""
    if len(driver) > MAX_NAME_LENGTH or not _NAME.fullmatch(driver.lower()):
        raise RegistrationRejected(f'the driver name "{driver[:253]}" is invalid: it must be a DNS subdomain')
    where = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
    if not versions:
        raise RegistrationRejected(f"{where}: empty list of supported gRPC services (aka supported versions)")
    for version in versions:
        if version in SUPPORTED:
            return version
    raise RegistrationRejected(
        f"{where}: none of services supported by the plugin ({_listed(versions)}) are supported by the kubelet "
        f"({_listed(SUPPORTED)})"
    )


def choose_health(versions: Sequence[str]) -> str:
    """Return the health service to use, or "" if the driver advertises none."""
    return next((service for service in HEALTH if service in versions), "")


def _listed(versions: Sequence[str]) -> str:
    return "[" + " ".join(f'"{version[:64]}"' for version in versions[:16]) + "]"


MAX_DEVICES = 1024
"""Devices of one claim. An allocation has at most 32, and every List of the node carries them."""
MAX_ANSWER_BYTES = 1 << 20
"""Bytes of the answer for one claim, with its CDI ids: they are part of every later checkpoint."""
MAX_ERROR_LENGTH = 4096
"""Characters of an error that pods show."""
PREPARE_METHOD = "NodePrepareResources"


class ClaimsOutcome:
    """Result of one call for several claims: the successes, and the first error."""

    def __init__(self) -> None:
        self.done: dict[str, tuple[PreparedDevice, ...]] = {}
        """Prepared devices by claim uid."""
        self.error: NodeplaneError | None = None


def read_reply(method: str, asked: Sequence[ClaimInfo], reply: Any) -> ClaimsOutcome:
    """Evaluate any version's response to `method`.

    One failed claim does not undo the others.
    """
    outcome, claims = ClaimsOutcome(), {claim.uid: claim for claim in asked}
    unknown = next((uid for uid in reply.claims if uid not in claims), None)
    if unknown is not None:  # one suffices: a reply may have a million
        _fail(outcome, f"{method} returned result for unknown claim UID {unknown}")
    for uid in sorted(uid for uid in claims if uid in reply.claims):
        answer = reply.claims[uid]
        if answer.error:
            _fail(outcome, f"{method} failed for ResourceClaim {claims[uid].name}: {answer.error}")
        elif method == PREPARE_METHOD and len(answer.devices) > MAX_DEVICES:
            _fail(outcome, f"{method} returned {len(answer.devices)} devices for ResourceClaim {claims[uid].name}")
        elif method == PREPARE_METHOD and answer.ByteSize() > MAX_ANSWER_BYTES:
            size = answer.ByteSize()
            _fail(
                outcome, f"{method} returned {size} bytes for ResourceClaim {claims[uid].name}, not {MAX_ANSWER_BYTES}"
            )
        else:
            outcome.done[uid] = tuple(_device(item) for item in answer.devices) if method == PREPARE_METHOD else ()
    skipped = len(asked) - len(reply.claims)
    if skipped > 0:
        _fail(outcome, f"{method} skipped {skipped} ResourceClaims")
    return outcome


def _fail(outcome: ClaimsOutcome, text: str) -> None:
    outcome.error = outcome.error or DriverFailed(" ".join(text[:MAX_ERROR_LENGTH].split()))


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
"""gRPC would close an idle connection, and with it the knowledge whether the driver is alive."""
RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 3000),
)


class DriverInstanceOptions(msgspec.Struct, frozen=True):
    """Registration of an instance: its socket and services."""

    driver: str
    endpoint: str
    service: str
    """v1.DRAPlugin or v1beta1.DRAPlugin."""
    health: str
    """The health service to follow; empty = none."""
    number: int
    """Newer instances have greater numbers."""
    limits: DraLimits
    metrics: DraMetrics
    on_changed: Callable[[], None]
    """Called after the connection state changed."""
    calls: CallLog = msgspec.field(default_factory=CallLog)
    health_advertised: bool = True
    """False: the driver did not name the service. It opts in by implementing it (KEP-4680)."""

    @property
    def health_method(self) -> Method[Any, Any]:
        return WATCH_DEVICES_STATUS if self.health == NODE_HEALTH else WATCH_RESOURCES[self.health]


class DriverInstance:
    """Compared by identity: a driver that registers again on the same socket is another instance."""

    def __init__(self, options: DriverInstanceOptions) -> None:
        self.options = options
        self.connected = False
        self.closed = False
        self.serves_health = bool(options.health) and options.health_advertised
        self._changed = asyncio.Event()
        self._peer = CallPeer(options.driver, options.endpoint)
        self._channel = plugin_channel(options.endpoint, NEVER_IDLE, *RECONNECT)
        following = restarted(self._watch, "driver connection", options.driver)
        self._task = awaited(following, "driver connection")

    async def close(self) -> None:
        self.closed = True
        await cancel(self._task)
        self._set_connected(False)
        await self._channel.close()

    async def wait_changed(self) -> None:
        """Wait for the next change of the connection state."""
        await self._changed.wait()

    async def _watch(self) -> None:
        """Follow the connection state, and reconnect at once: it shows whether the driver is alive without any call."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            self._set_connected(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    def _set_connected(self, connected: bool) -> None:
        if connected == self.connected:
            return
        self.connected = connected
        self._changed.set()
        self._changed = asyncio.Event()
        self.options.on_changed()

    async def prepare(self, claims: Sequence[ClaimInfo], pod: str) -> ClaimsOutcome:
        purpose = Purpose(pod, "the pod waits, and the call is repeated")
        return await self._call(PREPARE[self.options.service], claims, purpose)

    async def unprepare(self, claims: Sequence[ClaimInfo], pod: str) -> ClaimsOutcome:
        purpose = Purpose(pod, "the claims stay prepared, and the call is repeated")
        return await self._call(UNPREPARE[self.options.service], claims, purpose)

    async def _call(self, method: Method[Any, Any], claims: Sequence[ClaimInfo], purpose: Purpose) -> ClaimsOutcome:
        """Send all claims in one call. Errors are part of the outcome."""
        if self.closed:
            return failed_outcome(
                f"{method.name}: the connection is closed, the driver or the device manager is ending"
            )
        timeout = self.options.limits.call
        with self.options.calls.call(self._peer, method, deadline=timeout, purpose=purpose) as call:
            outcome = await self._send(call, method, claims, timeout)
            call.outcome = claims_outcome(method.name, len(outcome.done), len(claims))
            if outcome.error is not None:
                call.outcome = f"{outcome.error}: {purpose.if_failed}"
            return outcome

    async def _send(
        self, call: RecordedCall, method: Method[Any, Any], claims: Sequence[ClaimInfo], timeout: float
    ) -> ClaimsOutcome:
        request = method.request()
        for claim in claims:
            request.claims.add(namespace=claim.namespace, uid=claim.uid, name=claim.name)
        call.asked(request)
        begin, code = time.perf_counter(), grpc.StatusCode.OK
        try:
            names = ", ".join(claim.name for claim in claims[:8])
            with span("", method.name, driver=self.options.driver, claims=names) as step:
                try:
                    reply = await method.unary(self._channel)(request, timeout=timeout)
                except grpc.aio.AioRpcError as error:
                    call.failed(error)
                    code = error.code()
                    step.attributes["error"] = describe(error)
                    return failed_outcome(f"{method.name}: {describe(error)}")
        finally:
            self.options.metrics.call(self.options.driver, method.path, go_code(code), time.perf_counter() - begin)
        call.answered(reply)
        return read_reply(method.name, claims, reply)

    def health_reported(self) -> None:
        """Record that the driver serves the health service, whether it advertises it or not."""
        if not self.serves_health:
            self.serves_health = True
            self.options.on_changed()

    def record_health(self, report: StreamMessage) -> None:
        """Record a message of the health stream, or its end."""
        self.options.calls.report(self._peer, self.options.health_method, report)

    async def health(self) -> AsyncIterator[Any]:
        """Yield the messages of the health stream. Raises DriverFailed or HealthUnimplemented at its end."""
        method = self.options.health_method
        try:
            async for message in method.stream(self._channel)(method.request()):
                yield message
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise HealthUnimplemented(f"{self.options.driver} does not implement {self.options.health}") from None
            raise DriverFailed(f"its health stream ended: {describe(error)}", error.code().name) from None
        raise DriverFailed("its health stream ended: the driver closed it")


def failed_outcome(text: str) -> ClaimsOutcome:
    """Return an outcome with DriverFailed of this text."""
    outcome = ClaimsOutcome()
    outcome.error = DriverFailed(text)
    return outcome
