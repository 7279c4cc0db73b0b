"""A watching agent polls a kubelet that has no watch."""

import time

from supervisor.conform.agent.agent_stage import WATCH, AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "A kubelet without the watch, or with its gate off, answers ListAndWatch with UNIMPLEMENTED; all have List."
SOURCE = POD_RESOURCES_KEP
ADVICE = "Poll List every few seconds once ListAndWatch was answered with UNIMPLEMENTED; that does not pass by."


async def run(stage: AgentStage) -> None:
    """Restart the server without a watch."""
    await stage.needs_watch()
    await stage.server.stop()
    stage.server.unsupported = (WATCH, "ListAndWatchAllocatableResources")
    try:
        await stage.server.start()
        since = time.monotonic()
        if not await stage.until(lambda: _lists(stage, since) > 1, stage.timeout):
            stage.check_runs()
            times = f"List was called {_lists(stage, since)} times"
            raise Failed(f"ListAndWatch was answered with UNIMPLEMENTED; within {stage.timeout:g} s {times}")
    finally:
        stage.soil()
        stage.restore()


def _lists(stage: AgentStage, since: float) -> int:
    return sum(call.method == "List" for call in stage.calls(since))
