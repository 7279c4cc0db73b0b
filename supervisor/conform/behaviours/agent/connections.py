"""The agent uses one connection for many calls, or closes those that it opens."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_CLIENT
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "A connection stays until it is closed: each costs memory and a file of the agent, and of the kubelet."
SOURCE = f"{POD_RESOURCES_CLIENT}; NVIDIA/dcgm-exporter issue 702"
ADVICE = "Make the connection once and call on it, or close it after each call: with defer conn.Close() in Go."
CALLS, MOST = 4, 3
"""Calls that are waited for, and connections that an agent may open meanwhile."""


async def run(stage: AgentStage) -> None:
    """Count connections before and after some calls."""
    await stage.peers()
    calls, before = stage.server.counted, stage.server.connections()
    if not await stage.until(lambda: stage.server.counted >= calls + CALLS, stage.timeout):
        raise NotApplicable(f"it made fewer than {CALLS} calls within {stage.timeout:g} s")
    if (more := stage.server.connections() - before) >= MOST:
        raise Failed(f"with {stage.server.counted - calls} calls it opened {more} connections that it did not close")
