"""The program may start before the kubelet."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.program_stage import START_FACTOR
from supervisor.conform.sources import POD_RESOURCES_DOCS

PHASE = "restarts"
RULE = "An agent may start while the kubelet restarts; it calls once the socket is there."
SOURCE = POD_RESOURCES_DOCS
ADVICE = "Try again while the socket is missing, with a pause, instead of failing at the first dial."
HEAD_START_S = 2.0


async def run(stage: AgentStage) -> None:
    """Start the program, and then the server."""
    await stage.peers()
    await stage.start_alone(HEAD_START_S, "the socket")
    await stage.server.start()
    await stage.returns("after its start without a kubelet", 0.0, stage.timeout * START_FACTOR)
