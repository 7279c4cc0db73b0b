"""Each service that GetInfo names is served."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, REGISTRATION
from supervisor.conform.verdict import CallFailed, Failed

PHASE, ORDER = "calls", 1
RULE = "The kubelet calls NodePrepareResources and NodeUnprepareResources of the version that it chose from the list."
SOURCE = f"{DRA_API}; {REGISTRATION}"
ADVICE = "Add both servicers, that of dra/v1 and that of dra/v1beta1, to the server, or name one version only."


async def check(driver: DriverPeer) -> None:
    """Prepare and unprepare no claims by each version, over a connection of its own."""
    for version in driver.versions:
        another = driver.another()
        try:
            for call in (another.prepare, another.unprepare):
                if answers := await call(version=version):
                    raise Failed(f"{version}: no claim was asked for, {len(answers)} were answered")
        except CallFailed as error:
            raise Failed(f"{version}: {error}") from None
        finally:
            await another.close()
