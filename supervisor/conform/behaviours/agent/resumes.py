"""A watching agent that was cut off learns what it missed."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import WATCH, AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "A new stream begins with the next change: what changed in between is learned by List."
SOURCE = POD_RESOURCES_KEP
ADVICE = "After each new stream call List and replace the picture, unless the server offers to resume."
SETTLE_S = 1.0


async def run(stage: AgentStage) -> None:
    """Break the stream, and look at the calls that follow the new one."""
    await stage.needs_watch()
    await stage.server.stop()
    since = time.monotonic()
    await stage.server.start()
    await stage.returns("after its stream broke,", since)
    await stage.until(lambda: any(call.method == WATCH for call in stage.calls(since)), stage.timeout)
    await asyncio.sleep(SETTLE_S)
    if not any(call.method == "List" for call in stage.calls(since)):
        raise Failed("it opened ListAndWatch again, without List: it knows pods that are gone, and misses new ones")
