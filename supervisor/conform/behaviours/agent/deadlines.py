"""Calls have a deadline."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_CLIENT
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "A kubelet that hangs never answers; a call without a deadline then waits for ever. Streams need none."
SOURCE = POD_RESOURCES_CLIENT
ADVICE = "Pass a timeout of some seconds to List, Get and GetAllocatableResources: a context with one in Go."


async def run(stage: AgentStage) -> None:
    """Look at the deadlines of the unary calls."""
    unary = [call for call in await stage.peers() if not call.streams]
    if not unary:
        raise NotApplicable("it made no calls but streams")
    if without := sorted({call.method for call in unary if call.seconds is None}):
        raise Failed(f"{', '.join(without)} has no deadline")
