"""A device of a subrequest is answered for the request."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, DRA_HELPER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A result for one of several alternatives has REQUEST/SUBREQUEST; containers name the request alone."
SOURCE = f"{DRA_API}; {DRA_HELPER}; KEP-4816 (prioritized list)"
ADVICE = "Cut request names at the slash before you put them into request_names."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim with alternatives."""
    async with driver.claim(driver.offered()[:1], request="device/best") as claim:
        names = [name for device in await driver.prepared(claim) for name in device.request_names]
    if names and names != ["device"]:
        raise Failed(f"the result is of device/best, request_names is {names}; it must be ['device'] or empty")
