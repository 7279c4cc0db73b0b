"""The driver needs no processor while nothing happens."""

from supervisor.conform.busy import check_idle
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import DRA_API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "health", 110
RULE = "A driver waits for calls and for changes of the API; it must not take processor time from the pods of the node."
SOURCE = DRA_API
ADVICE = (
    "Leave the loop of a health stream when its call ends, and wait for the next event of a watch instead of asking."
)


async def run(stage: DriverStage) -> None:
    """Open health streams, hang up, and watch its threads."""
    for driver in await stage.drivers():
        another = driver.another()
        try:
            another.open_health()
            if another.health:
                await another.first_health(another.health)
        except Failed as error:
            raise NotApplicable(f"it needs a health stream: {error}") from None
        finally:
            await another.close()
    await check_idle(stage.program, "while nothing happened")
