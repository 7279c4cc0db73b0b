"""The plugin tries again after a rejected Register."""

from supervisor.conform.sources import SERVER
from supervisor.conform.stage import Stage

PHASE = "restarts"
RULE = "Register may fail, such as by a deadline while the kubelet starts; only the plugin can repeat it."
SOURCE = SERVER
ADVICE = (
    "Repeat Register with a back-off, or end with an error so that the container is started again; do not only log it."
)


async def run(stage: Stage) -> None:
    """Restart the kubelet, which then rejects one call of each resource."""
    await stage.plugins()
    await stage.restart_rejecting()
