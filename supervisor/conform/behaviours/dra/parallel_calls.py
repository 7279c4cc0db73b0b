"""Claims are prepared while others are prepared and unprepared."""

import asyncio
from contextlib import AsyncExitStack

from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer, contents, key_of, keys
from supervisor.conform.dra.objects import DriverClaim, Offered
from supervisor.conform.sources import DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "Pods start and end in parallel: claims of one are prepared while those of another are unprepared."
SOURCE = DRA_MANAGER
ADVICE = "Lock by the claim's uid rather than the whole driver, and keep what belongs to a call in local variables."
ROUNDS = 3


async def check(driver: DriverPeer) -> None:
    """Prepare and unprepare claims of different devices at once, each several times."""
    async with AsyncExitStack() as stack:
        claims = []
        for offered in driver.offered(2)[:SAMPLE]:
            claims.append((await stack.enter_async_context(driver.claim([offered])), offered))
        await asyncio.gather(*(_rounds(driver, claim, offered) for claim, offered in claims))


async def _rounds(driver: DriverPeer, claim: DriverClaim, offered: Offered) -> None:
    first = None
    for _ in range(ROUNDS):
        devices = await driver.prepared(claim)
        if [key_of(each) for each in devices] != keys([offered]):
            raise Failed(f"among calls at once, a claim of {offered.name} was answered with another device")
        first = first or contents(devices)
        if contents(devices) != first:
            raise Failed(f"among calls at once, the answers for a claim of {offered.name} differ")
        await driver.unprepared(claim)
        await driver.objects.pass_on(claim.name)
