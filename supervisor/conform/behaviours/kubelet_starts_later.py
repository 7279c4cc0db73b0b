"""The program may start before the kubelet."""

import asyncio

from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import NotApplicable

PHASE = "restarts"
RULE = "A plugin may start while the kubelet is restarting; it registers once kubelet.sock is there."
SOURCE = DOCS
ADVICE = "Wait for kubelet.sock, by a watch of its directory, before the first Register."
HEAD_START_S, FACTOR = 1.0, 2


async def run(stage: Stage) -> None:
    """Start the program, and then the kubelet."""
    await stage.plugins()
    await stage.end()
    await stage.start_program()
    await asyncio.sleep(max(HEAD_START_S, FACTOR * stage.started_in))  # until it has looked for kubelet.sock
    if not stage.program.runs:
        stage.soil()
        raise NotApplicable(f"without kubelet.sock {stage.program.end}: its container is started again, with back-off")
    await stage.kubelet.start()
    await stage.serve_started()
