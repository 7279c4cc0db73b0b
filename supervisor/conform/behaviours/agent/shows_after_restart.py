"""The agent shows what changed while it was cut off."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP

PHASE = "restarts"
RULE = "Nobody reports what happened while there was no kubelet: pods that List no longer has are gone."
SOURCE = POD_RESOURCES_KEP
ADVICE = "Replace all that you know by the List after a new stream or connection, instead of adding it."
GONE, NEW = "gone-meanwhile", "new-meanwhile"


async def run(stage: AgentStage) -> None:
    """Stop the server, delete a pod, add another, and start it."""
    await stage.peers()
    pods = stage.server.pods
    try:
        await stage.shows_new(GONE)
        await stage.server.stop()
        pods.delete(GONE)
        pods.add(NEW)
        await stage.server.start()
        await stage.shown(lambda text: NEW in text, f"pod {NEW} was added without a kubelet and is not shown")
        await stage.shown(lambda text: GONE not in text, f"pod {GONE} ended without a kubelet and is still shown")
    finally:
        stage.restore()
