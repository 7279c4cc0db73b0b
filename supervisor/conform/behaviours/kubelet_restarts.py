"""The plugin registers again when the kubelet has restarted."""

from supervisor.conform.sources import DOCS, SERVER
from supervisor.conform.stage import Stage

PHASE, ORDER = "restarts", 0
RULE = (
    "A starting kubelet removes all sockets in device-plugins/ and makes kubelet.sock anew; plugins then"
    " register again."
)
SOURCE = f"{DOCS}; {SERVER}"
ADVICE = (
    "Watch the directory for the creation of kubelet.sock; then bind your socket anew, since it was removed,"
    " and register."
)


async def run(stage: Stage) -> None:
    """Restart the kubelet without a pause, twice."""
    await stage.plugins()
    for _ in range(2):
        await stage.restart_kubelet()
        await stage.returns()
