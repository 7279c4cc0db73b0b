"""A watching agent reads as fast as pods change."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A client that does not read is dropped with RESOURCE_EXHAUSTED once the server's buffer is full."
SOURCE = POD_RESOURCES_KEP
ADVICE = "Only put events into a queue or map in the loop that reads the stream; do the slow work elsewhere."
PODS, PADDING = 500, 40_000
"""Together far more than a connection buffers."""
LEAST, WATCHED_S = 20, 2.0
"""Events per second, once all buffers are full, of an agent that only stores them on a machine that is overloaded."""


async def run(stage: AgentStage) -> None:
    """Add and delete many pods at once."""
    await stage.needs_watch()
    pods, server = stage.server.pods, stage.server
    before = pods.count
    for number in range(PODS):
        pods.add(f"burst-{number}", PADDING)
        pods.delete(f"burst-{number}")
    server.changes.notify()
    if not await stage.until(lambda: server.sent >= pods.count, stage.timeout):
        taken, late = max(0, server.sent - before), server.sent
        await stage.until(lambda: server.sent >= pods.count, WATCHED_S)
        stage.soil()
        if server.sent < min(pods.count, late + LEAST * WATCHED_S):
            raise Failed(f"it took {taken} of {pods.count - before} events within {stage.timeout:g} s")
