"""The number of calls does not grow with that of the pods."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_SERVER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "The kubelet answers 100 calls per second of all agents together, with a burst of 10; List has the devices of all"
    " pods."
)
SOURCE = POD_RESOURCES_SERVER
ADVICE = "Take the devices from List or the event, without a Get for each pod; after many events List once."
PODS, WATCHED_S = 60, 2.0


async def run(stage: AgentStage) -> None:
    """Count calls for a while, then again while many pods come."""
    await stage.peers()
    before = await _count(stage)
    for number in range(PODS):
        stage.server.pods.add(f"many-{number}")
    stage.server.changes.notify()
    try:
        if (more := await _count(stage) - before) >= PODS / 2:
            raise Failed(f"when {PODS} pods came it made {more} calls more within {WATCHED_S:g} s")
    finally:
        stage.restore()


async def _count(stage: AgentStage) -> int:
    since = time.monotonic()
    await asyncio.sleep(WATCHED_S)
    return len(stage.calls(since))
