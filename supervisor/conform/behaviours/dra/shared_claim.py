"""A claim that two pods share stays prepared until the last of them has ended."""

import asyncio

from supervisor.conform.dra.driver_peer import DriverPeer, contents
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "A claim may be reserved for several pods: it is prepared with the first, maybe again, and unprepared after the"
    " last; entries of status.reservedFor come and go meanwhile."
)
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = (
    "Key what you prepare by the uid of the claim alone, and clean up in NodeUnprepareResources: not when an entry of"
    " status.reservedFor goes."
)
SEEN_S, WATCHED_S = 0.5, 1.0
"""Time in which a driver that follows claims sees both pods, and that one is gone."""


async def check(driver: DriverPeer) -> None:
    """Prepare for two pods, take one away, prepare again, and unprepare."""
    pods = [await driver.objects.create_pod() for _ in range(2)]
    async with driver.claim(driver.offered()[:1], reserved=pods) as claim:
        try:
            devices = await driver.prepared(claim)
        except Failed as error:
            raise Failed(f"reserved for two pods, {error}") from None
        known = {id for each in devices for id in each.cdi_device_ids} & await asyncio.to_thread(driver.declared)
        await asyncio.sleep(SEEN_S)
        await driver.objects.reserve(claim.name, pods[1:])
        await asyncio.sleep(WATCHED_S)
        if lost := await driver.undeclared(known):
            raise Failed(f"no file declares {min(lost)} since one of two pods has ended; the other still uses it")
        if (again := contents(await driver.prepared(claim))) != contents(devices):
            raise Failed(f"since one of two pods has ended the answer is {again}, before {contents(devices)}")
        await driver.unprepared(claim)
