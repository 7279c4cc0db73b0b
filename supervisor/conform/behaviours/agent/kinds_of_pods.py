"""The agent lives with pods of all kinds: without devices, with processors, memory and claims, and without any."""

import asyncio
import time

from protocols.wire import podresources_v1_pb2 as pb
from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.sources import POD_RESOURCES_API, POD_RESOURCES_SERVER
from supervisor.conform.verdict import Failed

PHASE, ORDER = "calls", 50
RULE = (
    "All pods of the node are listed, none if there are none, with empty lists where they have nothing; a device may"
    " have no topology, or several entries for its NUMA nodes, a claim no devices yet."
)
SOURCE = f"{POD_RESOURCES_API}; {POD_RESOURCES_SERVER}"
ADVICE = "Expect each list to be empty and each message to be missing; what the program printed may say where it fails."
SETTLE_S = 1.0


async def run(stage: AgentStage) -> None:
    """Add such pods, and see whether the agent goes on."""
    await stage.peers()
    since = time.monotonic()
    for number, containers in enumerate(kinds(stage.server.pods.profile.resource)):
        stage.server.pods.put(f"kind-{number}", containers)
    stage.server.changes.notify()
    try:
        if await stage.watches():
            await stage.until(lambda: stage.server.sent >= stage.server.pods.count, stage.timeout)
            await asyncio.sleep(SETTLE_S)
            stage.check_runs()
            if not stage.server.open:
                raise Failed("after events of such pods its stream is closed")
        else:
            await stage.until(lambda: len(stage.calls(since)) > 1, stage.timeout)  # that of a slow one may come later
            stage.check_runs()
            await _without_pods(stage)
    finally:
        stage.restore()


async def _without_pods(stage: AgentStage) -> None:
    """Let an agent that polls read an empty list."""
    since = time.monotonic()
    stage.server.pods.clear()
    await stage.until(lambda: len(stage.calls(since)) > 1, stage.timeout)
    stage.check_runs()


def kinds(resource: str) -> list[list[pb.ContainerResources]]:
    """Return the containers of pods."""
    nodes = [pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)]) for node in (0, 1)]
    twice = [pb.ContainerDevices(resource_name=resource, device_ids=["both"], topology=each) for each in nodes]
    memory = [pb.ContainerMemory(memory_type="memory", size=1 << 30, topology=nodes[0])]
    claimed = pb.ClaimResource(driver_name="another.example", pool_name="pool", device_name="device")
    claims = [pb.DynamicResource(claim_name=name, claim_namespace="conform") for name in ("new", "prepared")]
    claims[1].claim_resources.append(claimed)
    return [
        [],
        [pb.ContainerResources(name="main")],
        [pb.ContainerResources(name="main", devices=[pb.ContainerDevices(resource_name=resource)])],
        [pb.ContainerResources(name="main", devices=twice)],
        [pb.ContainerResources(name="main", cpu_ids=[2, 3], memory=memory)],
        [pb.ContainerResources(name="main", dynamic_resources=claims)],
    ]
