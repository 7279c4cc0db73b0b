"""The program ends soon after SIGTERM."""

from typing import Any

from supervisor.conform.program_stage import ProgramStage
from supervisor.conform.sources import POD_LIFECYCLE
from supervisor.conform.verdict import Failed

PHASE = "end"
RULE = "A container is sent SIGTERM, and SIGKILL when the grace period of the pod is over."
SOURCE = POD_LIFECYCLE
ADVICE = (
    "Handle SIGTERM: end the open streams, stop the server, exit; GracefulStop alone waits for streams that never end."
    " As process 1 of a container it has no default action."
)


async def run(stage: ProgramStage[Any, Any]) -> None:
    """Send SIGTERM."""
    await stage.peers()
    ended = await stage.program.terminate(stage.timeout)
    stage.soil()
    if not ended:
        raise Failed(f"it still ran {stage.timeout:g} s after SIGTERM")
