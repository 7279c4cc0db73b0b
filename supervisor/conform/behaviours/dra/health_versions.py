"""Each health service that GetInfo names reports, to several kubelets' connections at once."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import HEALTH_API, REGISTRATION
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "health"
RULE = "A kubelet opens the stream of v1.DRAResourceHealth or v1alpha1.DRAResourceHealth, and again 5 s after its end."
SOURCE = f"{HEALTH_API}; {REGISTRATION}"
ADVICE = "Serve all that supported_versions names, keep no state of one stream beyond it, and serve several at once."


async def check(driver: DriverPeer) -> None:
    """Open a stream of each beside the first, twice."""
    if driver.health is None:
        raise NotApplicable("GetInfo names no health service")
    first = {each.device.device_name for each in await driver.first_health(driver.health)}
    for version in driver.health_versions * 2:
        another = driver.another()
        stream = another.watch(version)
        try:
            names = {each.device.device_name for each in await another.first_health(stream)}
        except Failed as error:
            raise Failed(f"{version}: {error}") from None
        finally:
            await stream.close()
            await another.close()
        if names != first:
            raise Failed(f"{version} reports {len(names)} devices, not the {len(first)} of the first stream")
