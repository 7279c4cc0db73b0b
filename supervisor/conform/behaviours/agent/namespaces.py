"""Pods of one name in two namespaces are two pods."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_API, POD_RESOURCES_KEP

PHASE = "calls"
RULE = "A pod is its namespace and name: StatefulSets and charts give pods of several namespaces the same name."
SOURCE = f"{POD_RESOURCES_API}; {POD_RESOURCES_KEP}"
ADVICE = "Use namespace and name, or the uid of the events, as the key of what you know of pods."
NAME, MARK, OTHER = "in-two-namespaces", "mark-of-namespaces", "conform-other"


async def run(stage: AgentStage) -> None:
    """Add two pods, delete one, and look for the other once the agent knows of that."""
    await stage.peers()
    pods = stage.server.pods
    pods.add(NAME, namespace=OTHER)
    try:
        await stage.shows_new(NAME)
        pods.delete(NAME, namespace=OTHER)
        pods.add(MARK)
        stage.server.changes.notify()
        await stage.shown(lambda text: MARK in text, f"pod {MARK} was added and is not shown")
        gone = f"pod {NAME} of namespace {OTHER} was deleted, and that of another namespace is not shown"
        await stage.shown(lambda text: NAME in text, gone)
    finally:
        stage.restore()
