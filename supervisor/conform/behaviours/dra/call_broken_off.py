"""A claim whose call broke off, since the kubelet ended, is prepared by the next one."""

import asyncio
import time

from supervisor.conform.caller import SENT_S, broken_off
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import DriverClaim
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "The kubelet repeats a call that it could not wait for to the end, on another connection, until it succeeds."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = (
    "Finish what a call has begun, or undo it, when its context is cancelled: release locks and marks of claims in"
    " progress on every way out."
)
POLL_S = 0.2


async def run(stage: DriverStage) -> None:
    """Restart the kubelet during a call, early and late, and prepare the claim."""
    for sent in SENT_S:
        driver = (await stage.drivers())[0]
        async with driver.claim(driver.offered()[:1]) as claim:
            await broken_off(driver.prepare(claim), sent, stage.restart_kubelet)
            again = await stage.served(driver.name, started=False)
            await _prepares(again, claim)
            await again.unprepared(claim)


async def _prepares(driver: DriverPeer, claim: DriverClaim) -> None:
    """Try as long as an answer may take: the first call may go on."""
    deadline = time.monotonic() + driver.timeout
    while True:
        try:
            await driver.prepared(claim)
            return
        except Failed as error:
            if time.monotonic() > deadline:
                raise Failed(f"{driver.timeout:g} s after a call that broke off: {error}") from None
        await asyncio.sleep(POLL_S)
