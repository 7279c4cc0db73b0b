"""The agent shows a pod that gets its devices after it was added."""

from protocols.wire import podresources_v1_pb2 as pb
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_KEP

PHASE = "calls"
RULE = (
    "A pod may be added without devices, and UPDATED when it has them, such as those of claims; an event is its state."
)
SOURCE = POD_RESOURCES_KEP
ADVICE = "Handle UPDATED like ADDED: replace what you know of the pod by what the event has."
PLAIN, NAME = "has-a-device", "gets-devices-later"


async def run(stage: AgentStage) -> None:
    """Add a pod without devices, and then give it one."""
    await stage.peers()
    pods = stage.server.pods
    pods.put(NAME, [pb.ContainerResources(name="main")])
    stage.server.changes.notify()
    try:
        await stage.shows_new(PLAIN)
        pods.put(NAME, [pb.ContainerResources(name="main", devices=[pods.device(NAME)])])
        stage.server.changes.notify()
        await stage.shown(lambda text: NAME in text, f"pod {NAME} was updated with a device and is not shown")
    finally:
        stage.restore()
