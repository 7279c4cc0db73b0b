"""The plugin needs no processor while there is no kubelet."""

from supervisor.conform.busy import check_idle
from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage

PHASE = "restarts"
RULE = "A kubelet may be away for minutes, such as during an upgrade; the pods of the node run on and need the node."
SOURCE = DOCS
ADVICE = "Sleep between tries, or watch the directory for kubelet.sock, instead of looking for it in a tight loop."


async def run(stage: Stage) -> None:
    """Stop the kubelet, and watch the threads of the plugin."""
    await stage.plugins()
    await stage.kubelet.stop()
    await check_idle(stage.program, "without a kubelet")
    stage.check_runs()
    await stage.kubelet.start()
    await stage.returns()
