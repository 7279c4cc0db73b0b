"""A watching agent that was cut off learns what it missed."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import WATCH, AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "A new stream begins with the next change: what changed in between is learned by List, or by resuming."
SOURCE = POD_RESOURCES_KEP
ADVICE = "After each new stream call List and replace the picture, or send nodeplane-resume, or nodeplane-snapshot."
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
    calls = stage.calls(since)
    metadata = {key for call in calls for key in call.metadata}
    if not {"nodeplane-resume", "nodeplane-snapshot"} & metadata and not any(call.method == "List" for call in calls):
        raise Failed("it opened ListAndWatch again, without List, nodeplane-resume or nodeplane-snapshot")
