"""The agent does not call more often than it needs to."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_SERVER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "The kubelet answers 100 calls per second of all agents together, with a burst of 10; what is beyond gets"
    " RESOURCE_EXHAUSTED, whoever it is."
)
SOURCE = POD_RESOURCES_SERVER
ADVICE = "Poll every few seconds, ask once for all pods instead of once for each, or use ListAndWatch and wait."
WATCHED_S, MOST = 2.0, 10


async def run(stage: AgentStage) -> None:
    """Count calls for a while in which nothing changes."""
    await stage.peers()
    since = time.monotonic()
    await asyncio.sleep(WATCHED_S)
    if (rate := len(stage.calls(since)) / WATCHED_S) > MOST:
        raise Failed(f"it made {rate:g} calls per second while nothing changed")
