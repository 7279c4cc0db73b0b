"""The agent lives on when calls are answered with UNAVAILABLE, and calls again with a pause."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.agent.failures import survives
from supervisor.conform.sources import POD_RESOURCES_SERVER

PHASE = "restarts"
RULE = "The server is restarting, or its queue is full: the same call works soon."
SOURCE = POD_RESOURCES_SERVER
ADVICE = "Treat the code as temporary: log it, wait with a back-off, and call again; do not exit, and do not spin."


async def run(stage: AgentStage) -> None:
    """Fail all calls for a while."""
    await survives(stage, "UNAVAILABLE")
