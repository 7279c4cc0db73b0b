"""NotifyRegistrationStatus is answered without an error, and the socket stays."""

import asyncio

from protocols.process.sockets import is_socket
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import RECONCILER
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "registration", 3
RULE = "The kubelet reports that the driver is registered; if that call fails it removes the driver and tries again."
SOURCE = RECONCILER
ADVICE = "Answer NotifyRegistrationStatus with an empty RegistrationStatusResponse, whatever the status says; serve on."
WATCHED_S = 0.3


async def run(stage: DriverStage) -> None:
    """Look at what became of the first attempt."""
    attempt = await stage.first_attempt()
    if attempt.notify_fault:
        raise Failed(attempt.notify_fault)
    if attempt.fault:
        raise NotApplicable(f"the registration was rejected before: {attempt.fault}")
    await asyncio.sleep(WATCHED_S)
    if not is_socket(attempt.socket):
        raise Failed(f"{attempt.socket.name} was removed after the registration: the kubelet drops the driver")
