"""The agent takes a list of more than 4 MiB."""

import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_CLIENT

PHASE = "calls"
RULE = "A list may have up to 16 MiB, the limit of kubelet's own client; gRPC's default is 4 MiB."
SOURCE = POD_RESOURCES_CLIENT
ADVICE = "Set the largest message that the client receives to 16 MiB (grpc.max_receive_message_length)."
PODS, PADDING, LAST = 60, 100_000, "the-last-of-many"


async def run(stage: AgentStage) -> None:
    """Add large pods, and look whether the agent lives and shows the last."""
    await stage.peers()
    since = time.monotonic()
    for number in range(PODS):
        stage.server.pods.add(f"large-{number}", PADDING)
    stage.server.pods.add(LAST)
    stage.server.changes.notify()
    try:
        if not await stage.watches():
            await stage.returns("after a list of 6 MB", since)
        await stage.shown(lambda text: LAST in text, f"pod {LAST} in a list of 6 MB is not shown")
    finally:
        stage.restore()
