"""The driver lives on when its registration fails, and is registered later."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import RECONCILER

PHASE = "restarts"
RULE = "NotifyRegistrationStatus may report an error; the kubelet asks the same socket again, with back-off."
SOURCE = RECONCILER
ADVICE = "Print the error and keep serving, or end with it so that the container is started again."


async def run(stage: DriverStage) -> None:
    """Restart the kubelet, which then rejects one registration of each."""
    await stage.drivers()
    await stage.restart_rejecting()
