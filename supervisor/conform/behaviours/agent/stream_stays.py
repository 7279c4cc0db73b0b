"""A watching agent keeps its stream open."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A stream is silent while nothing changes, for days; each new one costs the server a snapshot."
SOURCE = POD_RESOURCES_KEP
ADVICE = "Read the stream in a loop without a deadline, instead of a short one that is repeated."
WATCHED_S = 2.0


async def run(stage: AgentStage) -> None:
    """Count streams for a while in which nothing changes."""
    await stage.needs_watch()
    since = time.monotonic()
    await asyncio.sleep(WATCHED_S)
    if more := sum(call.streams for call in stage.calls(since)):
        raise Failed(f"it opened {more} more streams within {WATCHED_S:g} s in which nothing changed")
    if not stage.server.open:
        raise Failed("its stream is closed, and no other is open")
