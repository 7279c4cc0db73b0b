"""Devices are found in each container of a pod, and behind those of other vendors."""

from protocols.wire import podresources_v1_pb2 as pb
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_API, POD_RESOURCES_SERVER

PHASE = "calls"
RULE = (
    "A pod has several containers, sidecars first, and a container several entries: one for each device, of all"
    " resources."
)
SOURCE = f"{POD_RESOURCES_API}; {POD_RESOURCES_SERVER}"
ADVICE = "Loop over all containers, all devices of each and all device_ids of each, and leave out other resources."
PLAIN, LATER, BEHIND = "one-container", "device-in-the-last-container", "device-behind-anothers"
SIDECAR, FOREIGN = "sidecar", pb.ContainerDevices(resource_name="another.example/nic", device_ids=["nic-0"])


async def run(stage: AgentStage) -> None:
    """Add a pod of each kind."""
    await stage.peers()
    pods = stage.server.pods
    with_device = pb.ContainerResources(name="main", devices=[pods.device(LATER)])
    pods.put(LATER, [pb.ContainerResources(name=SIDECAR), with_device])
    pods.put(BEHIND, [pb.ContainerResources(name="main", devices=[FOREIGN, pods.device(BEHIND)])])
    try:
        await stage.shows_new(PLAIN)
        await stage.shown(lambda text: LATER in text, f"pod {LATER}, whose first container has none, is not shown")
        await stage.shown(lambda text: BEHIND in text, f"pod {BEHIND}, which has another vendor's first, is not shown")
    finally:
        stage.restore()
