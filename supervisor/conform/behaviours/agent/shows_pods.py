"""The agent shows pods that come, and not those that are gone."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP

PHASE = "calls"
RULE = "A pod in ADDED or List has its devices; one in DELETED, or no longer in List, has none: they may be another's."
SOURCE = POD_RESOURCES_KEP
ADVICE = "Handle DELETED, which has no containers, by name and namespace; replace the whole picture at each List."
NAME, LAST = "comes-and-goes", "goes-with-all-others"


async def run(stage: AgentStage) -> None:
    """Add a pod, and delete it; add another, and delete all."""
    await stage.peers()
    stage.server.pods.add(NAME)
    stage.server.changes.notify()
    await stage.shown(lambda text: NAME in text, f"pod {NAME} was added and is not shown")
    stage.server.pods.delete(NAME)
    stage.server.changes.notify()
    await stage.shown(lambda text: NAME not in text, f"pod {NAME} was deleted and is still shown")
    try:
        await stage.shows_new(LAST)
        stage.server.pods.clear()
        stage.server.changes.notify()
        await stage.shown(lambda text: LAST not in text, f"all pods were deleted and {LAST} is still shown")
    finally:
        stage.restore()
