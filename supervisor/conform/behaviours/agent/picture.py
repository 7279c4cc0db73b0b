"""The pods and their devices as an agent shows them."""

import asyncio
import time

from protocols.wire import podresources_v1_pb2 as pb
from supervisor.conform.agent.agent_stage import WATCH, AgentStage
from supervisor.conform.scripts import run
from supervisor.conform.verdict import Failed

NAME, LAST = "comes-and-goes", "goes-with-all-others"


@run
async def shows_pods(stage: AgentStage) -> None:
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


PLAIN, LATER, BEHIND = "one-container", "device-in-the-last-container", "device-behind-anothers"
SIDECAR, FOREIGN = "sidecar", pb.ContainerDevices(resource_name="another.example/nic", device_ids=["nic-0"])


@run
async def all_containers(stage: AgentStage) -> None:
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


SETTLE_S = 1.0


@run
async def kinds_of_pods(stage: AgentStage) -> None:
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
    twice = [pb.ContainerDevices(resource_name=resource, device_ids=["both"], topology=node) for node in nodes]
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


NAMESPACES_NAME, MARK, OTHER = "in-two-namespaces", "mark-of-namespaces", "conform-other"


@run
async def namespaces(stage: AgentStage) -> None:
    """Add two pods, delete one, and look for the other once the agent knows of that."""
    await stage.peers()
    pods = stage.server.pods
    pods.add(NAMESPACES_NAME, namespace=OTHER)
    try:
        await stage.shows_new(NAMESPACES_NAME)
        pods.delete(NAMESPACES_NAME, namespace=OTHER)
        pods.add(MARK)
        stage.server.changes.notify()
        await stage.shown(lambda text: MARK in text, f"pod {MARK} was added and is not shown")
        gone = f"pod {NAMESPACES_NAME} of namespace {OTHER} was deleted, and that of another namespace is not shown"
        await stage.shown(lambda text: NAMESPACES_NAME in text, gone)
    finally:
        stage.restore()


SAME_IDS_NAME, SAME_IDS_OTHER, SAME_IDS_MARK = "has-the-id", "has-the-id-of-anothers", "mark-of-ids"


@run
async def same_ids(stage: AgentStage) -> None:
    """Give a device to a pod, and one of another resource and of that id to another pod."""
    await stage.peers()
    pods = stage.server.pods
    own = pods.device(SAME_IDS_NAME)
    foreign = pb.ContainerDevices(resource_name="another.example/nic", device_ids=own.device_ids)
    try:
        await stage.shows_new(SAME_IDS_NAME)
        pods.put(SAME_IDS_OTHER, [pb.ContainerResources(name="main", devices=[foreign])])
        await stage.shows_new(SAME_IDS_MARK)
        await stage.shown(
            lambda text: SAME_IDS_NAME in text.replace(SAME_IDS_OTHER, ""),
            f"pod {SAME_IDS_OTHER} got a device of another resource with the id of that of pod {SAME_IDS_NAME}, which"
            " is not shown",
        )
    finally:
        stage.restore()


UPDATED_PLAIN, UPDATED_NAME = "has-a-device", "gets-devices-later"


@run
async def updated(stage: AgentStage) -> None:
    """Add a pod without devices, and then give it one."""
    await stage.peers()
    pods = stage.server.pods
    pods.put(UPDATED_NAME, [pb.ContainerResources(name="main")])
    stage.server.changes.notify()
    try:
        await stage.shows_new(UPDATED_PLAIN)
        pods.put(UPDATED_NAME, [pb.ContainerResources(name="main", devices=[pods.device(UPDATED_NAME)])])
        stage.server.changes.notify()
        await stage.shown(
            lambda text: UPDATED_NAME in text, f"pod {UPDATED_NAME} was updated with a device and is not shown"
        )
    finally:
        stage.restore()


@run
async def whole_picture(stage: AgentStage) -> None:
    """Look at the calls that followed the first stream."""
    await stage.needs_watch()
    await asyncio.sleep(SETTLE_S)
    calls = stage.calls()
    first = next(call for call in calls if call.method == WATCH)
    if not any(call.method == "List" and call.at >= first.at for call in calls):
        before = any(call.method == "List" for call in calls)
        raise Failed(
            f"ListAndWatch was opened {'after List: changes between them are lost' if before else 'without List'}"
        )


PODS, PADDING = 500, 40_000
"""Together far more than a connection buffers."""
LEAST, WATCHED_S = 20, 2.0
"""Events per second, once all buffers are full, of an agent that only stores them on a machine that is overloaded."""


@run
async def burst(stage: AgentStage) -> None:
    """Add and delete many pods at once."""
    await stage.needs_watch()
    pods, server = stage.server.pods, stage.server
    before = pods.count
    for number in range(PODS):
        pods.add(f"burst-{number}", PADDING)
        pods.delete(f"burst-{number}")
    server.changes.notify()
    if not await stage.until(lambda: server.sent >= pods.count, stage.timeout):
        taken, late = max(0, server.sent - before), server.sent
        await stage.until(lambda: server.sent >= pods.count, WATCHED_S)
        stage.soil()
        if server.sent < min(pods.count, late + LEAST * WATCHED_S):
            raise Failed(f"it took {taken} of {pods.count - before} events within {stage.timeout:g} s")


@run
async def stream_stays(stage: AgentStage) -> None:
    """Count streams for a while in which nothing changes."""
    await stage.needs_watch()
    since = time.monotonic()
    await asyncio.sleep(WATCHED_S)
    if more := sum(call.streams for call in stage.calls(since)):
        raise Failed(f"it opened {more} more streams within {WATCHED_S:g} s in which nothing changed")
    if not stage.server.open:
        raise Failed("its stream is closed, and no other is open")
