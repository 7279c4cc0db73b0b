"""The plugin needs no processor while there is no kubelet."""

from supervisor.conform.busy import ROUNDS, WATCHED_S, spins
from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "A kubelet may be away for minutes, such as during an upgrade; the pods of the node run on and need the node."
SOURCE = DOCS
ADVICE = "Sleep between tries, or watch the directory for kubelet.sock, instead of looking for it in a tight loop."


async def run(stage: Stage) -> None:
    """Stop the kubelet, and watch the threads of the plugin."""
    await stage.plugins()
    await stage.kubelet.stop()
    busy = await spins(stage.program)
    stage.check_runs()
    if busy:
        raise Failed(f"without a kubelet a thread was never idle within {ROUNDS * WATCHED_S:g} s: it spins")
    await stage.kubelet.start()
    await stage.returns()
