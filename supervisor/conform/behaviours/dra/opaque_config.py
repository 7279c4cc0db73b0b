"""Configuration of other drivers in a claim is left to them."""

from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.sources import DRA_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "An allocation has the opaque configuration of all its drivers; each reads the entries that name it."
SOURCE = f"{RESOURCE_API}; {DRA_KEP}"
ADVICE = "Skip entries whose opaque.driver is not yours before you decode their parameters; reject only your own."
PARAMETERS = {"apiVersion": "other.nodeplane.example/v1", "kind": "Unknown", "level": 7}


async def check(driver: DriverPeer) -> None:
    """Prepare a claim that has the configuration of another driver's class."""
    offered = driver.offered()[0]
    opaque = {"driver": "other.nodeplane.example", "parameters": PARAMETERS}
    claim = await driver.objects.create_claim([offered.result()], [{"source": "FromClass", "opaque": opaque}])
    try:
        if (found := [key_of(each) for each in await driver.prepared(claim)]) != keys([offered]):
            raise Failed(f"{offered.name} was allocated with a configuration of another driver, the answer has {found}")
    finally:
        await driver.drop(claim)
