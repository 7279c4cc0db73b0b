"""Binding conditions of an allocated device become true."""

import asyncio
import time

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.objects import CLAIMS
from supervisor.conform.program_stage import START_FACTOR
from supervisor.conform.sources import BINDING_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "A pod is bound when all bindingConditions of its devices are True in status.devices of the claim; one of the"
    " bindingFailureConditions gives the device up."
)
SOURCE = f"{BINDING_KEP}; {RESOURCE_API}"
ADVICE = "Watch claims that are allocated to your devices, and set the conditions in status.devices of the claim."
POLL_S = 0.2


async def check(driver: DriverPeer) -> None:
    """Allocate such a device, and wait."""
    found = [each for each in driver.offered() if each.device.get("bindingConditions")][:1]
    if not found:
        raise NotApplicable("no device has bindingConditions")
    wanted = set(found[0].device["bindingConditions"])
    seconds = driver.timeout * START_FACTOR
    async with driver.claim(found) as claim:
        deadline = time.monotonic() + seconds
        while missing := wanted - _true(await driver.objects.ask("GET", f"{CLAIMS}/{claim.name}")):
            if time.monotonic() > deadline:
                raise Failed(f"{min(missing)} of {found[0].name} was not True within {seconds:g} s")
            await asyncio.sleep(POLL_S)


def _true(claim: dict[str, object]) -> set[str]:
    status = claim.get("status")
    devices = status.get("devices") or () if isinstance(status, dict) else ()
    return {each["type"] for device in devices for each in device.get("conditions") or () if each["status"] == "True"}
