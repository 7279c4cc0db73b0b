"""The agent calls the next server when the kubelet has restarted."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_DOCS

PHASE, ORDER = "restarts", 0
RULE = "A restart of the kubelet breaks all connections and makes the socket anew, under the same path."
SOURCE = POD_RESOURCES_DOCS
ADVICE = "Call again after UNAVAILABLE, by a channel that connects anew; mount the directory, not the socket."
SETTLE_S = 0.3
"""gRPC sends a call again by itself if the server ends before it has sent a header."""


async def run(stage: AgentStage) -> None:
    """Restart the server twice."""
    await stage.peers()
    for _ in range(2):
        await asyncio.sleep(SETTLE_S)
        await stage.server.stop()
        since = time.monotonic()
        await stage.server.start()
        await stage.returns("after the restart of the kubelet", since)
