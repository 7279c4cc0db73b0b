"""Devices of two resources may have the same id."""

from protocols.wire import podresources_v1_pb2 as pb
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import API, POD_RESOURCES_API

PHASE = "calls"
RULE = "The id of a device is unique among those of its resource only: two plugins of a node may both have a 0."
SOURCE = f"{API}; {POD_RESOURCES_API}"
ADVICE = "Use resource_name and id together as the key of what you know of devices."
NAME, OTHER, MARK = "has-the-id", "has-the-id-of-anothers", "mark-of-ids"


async def run(stage: AgentStage) -> None:
    """Give a device to a pod, and one of another resource and of that id to another pod."""
    await stage.peers()
    pods = stage.server.pods
    own = pods.device(NAME)
    foreign = pb.ContainerDevices(resource_name="another.example/nic", device_ids=own.device_ids)
    try:
        await stage.shows_new(NAME)
        pods.put(OTHER, [pb.ContainerResources(name="main", devices=[foreign])])
        await stage.shows_new(MARK)
        what = f"pod {OTHER} got a device of another resource with the id of that of pod {NAME}, which is not shown"
        await stage.shown(lambda text: NAME in text.replace(OTHER, ""), what)
    finally:
        stage.restore()
