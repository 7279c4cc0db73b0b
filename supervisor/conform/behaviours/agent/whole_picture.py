"""A watching agent also learns of the pods that were there before."""

import asyncio

from supervisor.conform.agent.agent_stage import WATCH, AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "ListAndWatch sends changes only: a pod that exists is silent until it does. List after the stream's headers."
SOURCE = POD_RESOURCES_KEP
ADVICE = "Open the stream, wait for its headers, call List, then apply events: a deleted pod may be unknown."
SETTLE_S = 1.0


async def run(stage: AgentStage) -> None:
    """Look at the calls that followed the first stream."""
    await stage.needs_watch()
    await asyncio.sleep(SETTLE_S)
    calls = stage.calls()
    first = next(call for call in calls if call.method == WATCH)
    if not any(call.method == "List" and call.at >= first.at for call in calls):
        before = any(call.method == "List" for call in calls)
        raise Failed(
            f"ListAndWatch was opened {'after List: changes between them are lost' if before else 'without List'}"
        )
