"""The plugin waits for a kubelet that is away for a while."""

from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage

PHASE = "restarts"
RULE = "kubelet.sock is missing while a kubelet restarts; a plugin registers once it is there again."
SOURCE = DOCS
ADVICE = (
    "Wait for kubelet.sock to be created instead of giving up at the first failed dial; exiting costs a crash back-off."
)
AWAY_S = 2.0


async def run(stage: Stage) -> None:
    """Stop the kubelet, and start it later."""
    await stage.plugins()
    await stage.restart_kubelet(away=AWAY_S)
    await stage.returns()
