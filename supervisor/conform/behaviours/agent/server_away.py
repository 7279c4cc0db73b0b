"""The agent waits for a kubelet that is away for a while."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_DOCS

PHASE = "restarts"
RULE = "The socket is missing while a kubelet is updated; agents go on once it is there again."
SOURCE = POD_RESOURCES_DOCS
ADVICE = "Do not exit when the socket is missing: an exit costs the back-off of a crashed container, up to 5 minutes."
AWAY_S = 2.0


async def run(stage: AgentStage) -> None:
    """Stop the server, and start it later."""
    await stage.peers()
    await stage.server.stop()
    await asyncio.sleep(AWAY_S)
    stage.check_runs()
    since = time.monotonic()
    await stage.server.start()
    await stage.returns(f"after {AWAY_S:g} s without a kubelet", since)
