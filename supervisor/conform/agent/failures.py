"""Fail all calls for a while, and see what the agent makes of it."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.verdict import Failed

FAILING_S, MOST = 2.0, 20
"""Seconds, and calls that an agent with a back-off may make in them."""


async def survives(stage: AgentStage, code: str) -> None:
    """Break open streams, answer with the code, then answer as before. Raises Failed."""
    await stage.peers()
    stage.server.failing = code
    since = time.monotonic()
    if stage.server.open:
        await stage.server.stop()
        await stage.server.start()
    await stage.returns("with broken streams,", since)
    await asyncio.sleep(FAILING_S)
    made = len(stage.calls(since))
    stage.check_runs()
    again = time.monotonic()
    stage.server.failing = ""
    await stage.returns(f"after calls that were answered with {code},", again)
    if made > MOST:
        raise Failed(f"it made {made} calls within {FAILING_S:g} s that were answered with {code}")
