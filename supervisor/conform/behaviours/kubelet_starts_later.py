"""The program may start before the kubelet."""

from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage

PHASE = "restarts"
RULE = "A plugin may start while the kubelet is restarting; it registers once kubelet.sock is there."
SOURCE = DOCS
ADVICE = "Wait for kubelet.sock, by a watch of its directory, before the first Register."
HEAD_START_S = 1.0


async def run(stage: Stage) -> None:
    """Start the program, and then the kubelet."""
    await stage.plugins()
    await stage.start_alone(HEAD_START_S, "kubelet.sock")
    await stage.kubelet.start()
    await stage.serve_started()
