"""The agent lives on when a kubelet does not answer, and calls the next one."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_CLIENT, POD_RESOURCES_DOCS

PHASE = "restarts"
RULE = "A kubelet that hangs answers nothing until it is started again: calls end at their deadlines meanwhile."
SOURCE = f"{POD_RESOURCES_DOCS}; {POD_RESOURCES_CLIENT}"
ADVICE = "Treat DEADLINE_EXCEEDED like UNAVAILABLE: log it, wait with a back-off, and call again; do not exit."
PAUSE_S = 0.5


async def run(stage: AgentStage) -> None:
    """Answer nothing until the call that came is over, and restart the server."""
    await stage.peers()
    stage.server.hanging = True
    try:
        since = time.monotonic()
        if stage.server.open:
            await stage.server.stop()
            await stage.server.start()
        await stage.returns("with broken streams,", since)
        deadlines = [call.seconds for call in stage.calls(since) if call.seconds is not None]
        await asyncio.sleep(min(max(deadlines, default=0.0), stage.timeout) + PAUSE_S)
        stage.check_runs()
        await stage.server.stop()
    finally:
        stage.server.hanging = False
    since = time.monotonic()
    await stage.server.start()
    await stage.returns("after the restart of a kubelet that hung,", since)
