"""Each device is answered for the request that it was allocated for."""

import re

from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "A container that names one request of a claim gets the devices whose request_names have it, and those whose"
    " request_names are empty, by their CDI ids."
)
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Take request and device from the same result of the allocation, and make the CDI id of that device."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim of two requests."""
    first, second = driver.offered(2)[:2]
    claim = await driver.objects.create_claim([first.result("first"), second.result("second")])
    try:
        devices = await driver.prepared(claim)
    finally:
        await driver.drop(claim)
    if [key_of(each) for each in devices] != keys([first, second]):
        raise Failed("two requests have a device each, the answer has others")
    for offered, other, request in ((first, second, "first"), (second, first, "second")):
        device = next(each for each in devices if key_of(each) == (offered.pool, offered.name))
        if (names := list(device.request_names)) != [request]:
            raise Failed(f"{offered.name} is for request {request}, its request_names are {names}")
        for id in device.cdi_device_ids:
            if _has(id, other.name) and not _has(id, offered.name):
                raise Failed(f"the CDI id of {offered.name}, {id}, has the name of {other.name}")


def _has(id: str, name: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", id) is not None
