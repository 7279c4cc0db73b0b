"""The program may start before the kubelet."""

import asyncio

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.program_stage import START_FACTOR
from supervisor.conform.sources import POD_RESOURCES_DOCS
from supervisor.conform.verdict import NotApplicable

PHASE = "restarts"
RULE = "An agent may start while the kubelet restarts; it calls once the socket is there."
SOURCE = POD_RESOURCES_DOCS
ADVICE = "Try again while the socket is missing, with a pause, instead of failing at the first dial."
HEAD_START_S, FACTOR = 2.0, 2


async def run(stage: AgentStage) -> None:
    """Start the program, and then the server."""
    await stage.peers()
    await stage.end()
    await stage.start_program()
    await asyncio.sleep(max(HEAD_START_S, FACTOR * stage.started_in))  # until it has looked for the socket
    if not stage.program.runs:
        stage.soil()
        raise NotApplicable(f"without the socket {stage.program.end}: its container is started again, with back-off")
    await stage.server.start()
    await stage.returns("after its start without a kubelet", 0.0, stage.timeout * START_FACTOR)
