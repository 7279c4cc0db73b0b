"""The agent needs no processor while there is no kubelet."""

import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.busy import check_idle
from supervisor.conform.sources import POD_RESOURCES_DOCS

PHASE = "restarts"
RULE = "A kubelet may be away for minutes, such as during an upgrade; the pods of the node run on and need the node."
SOURCE = POD_RESOURCES_DOCS
ADVICE = "Sleep between tries, or watch the directory for the socket, instead of looking for it in a tight loop."


async def run(stage: AgentStage) -> None:
    """Stop the server, and watch the threads of the agent."""
    await stage.peers()
    await stage.server.stop()
    await check_idle(stage.program, "without a kubelet")
    stage.check_runs()
    since = time.monotonic()
    await stage.server.start()
    await stage.returns("after some seconds without a kubelet", since)
