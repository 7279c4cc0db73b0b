"""Both versions of the service answer alike."""

from supervisor.conform.dra.driver_peer import DriverPeer, contents
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "A claim prepared by an old kubelet is prepared again and unprepared by a new one, with the other version."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Do the work in one place and let the servicers of dra/v1 and dra/v1beta1 only convert."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim by each."""
    if len(driver.versions) < 2:
        raise NotApplicable(f"the driver has {driver.versions[0]} only")
    async with driver.claim(driver.offered()[:1]) as claim:
        first, second = [contents(await driver.prepared(claim, version)) for version in driver.versions[:2]]
        if first != second:
            raise Failed(f"{driver.versions[0]} answers {first}, {driver.versions[1]} {second}")
