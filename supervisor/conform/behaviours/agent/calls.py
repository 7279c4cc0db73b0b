"""Number, kind and deadlines of an agent's calls."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.scripts import run
from supervisor.conform.sources import POD_RESOURCES_CLIENT, POD_RESOURCES_DOCS, POD_RESOURCES_SERVER
from supervisor.conform.verdict import Failed, NotApplicable


@run(
    "The program calls the pod resources API.",
    phase="calls",
    order=0,
    rule="The kubelet serves v1.PodResourcesLister on DIRECTORY/pod-resources/kubelet.sock.",
    source=POD_RESOURCES_DOCS,
    advice="Dial the socket that NODEPLANE_POD_RESOURCES names, or pod-resources/kubelet.sock below"
    " NODEPLANE_KUBELET_DIR, and call List or ListAndWatch; what the program printed may say why it did not.",
)
async def calls(stage: AgentStage) -> None:
    """Wait for the first call."""
    try:
        await stage.peers()
    except NotServing as error:
        raise Failed(error.why) from None


PODS, WATCHED_S = 60, 2.0


@run(
    "The number of calls does not grow with that of the pods.",
    phase="calls",
    rule="The kubelet answers 100 calls per second of all agents together, with a burst of 10; List has the devices of"
    " all pods.",
    source=POD_RESOURCES_SERVER,
    advice="Take the devices from List or the event, without a Get for each pod; after many events List once.",
)
async def calls_per_pod(stage: AgentStage) -> None:
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


CALLS, MOST = 4, 3
"""Calls that are waited for, and connections that an agent may open meanwhile."""


@run(
    "The agent uses one connection for many calls, or closes those that it opens.",
    phase="calls",
    rule="A connection stays until it is closed: each costs memory and a file of the agent, and of the kubelet.",
    source=f"{POD_RESOURCES_CLIENT}; NVIDIA/dcgm-exporter issue 702",
    advice="Make the connection once and call on it, or close it after each call: with defer conn.Close() in Go.",
)
async def connections(stage: AgentStage) -> None:
    """Count connections before and after some calls."""
    await stage.peers()
    calls, before = stage.server.counted, stage.server.connections()
    if not await stage.until(lambda: stage.server.counted >= calls + CALLS, stage.timeout):
        raise NotApplicable(f"it made fewer than {CALLS} calls within {stage.timeout:g} s")
    if (more := stage.server.connections() - before) >= MOST:
        raise Failed(f"with {stage.server.counted - calls} calls it opened {more} connections that it did not close")


@run(
    "Calls have a deadline.",
    phase="calls",
    rule="A kubelet that hangs never answers; a call without a deadline then waits for ever. Streams need none.",
    source=POD_RESOURCES_CLIENT,
    advice="Pass a timeout of some seconds to List, Get and GetAllocatableResources: a context with one in Go.",
)
async def deadlines(stage: AgentStage) -> None:
    """Look at the deadlines of the unary calls."""
    unary = [call for call in await stage.peers() if not call.streams]
    if not unary:
        raise NotApplicable("it made no calls but streams")
    if without := sorted({call.method for call in unary if call.seconds is None}):
        raise Failed(f"{', '.join(without)} has no deadline")


RATE_WATCHED_S, RATE_MOST = 2.0, 10


@run(
    "The agent does not call more often than it needs to.",
    phase="calls",
    rule="The kubelet answers 100 calls per second of all agents together, with a burst of 10; what is beyond gets"
    " RESOURCE_EXHAUSTED, whoever it is.",
    source=POD_RESOURCES_SERVER,
    advice="Poll every few seconds, ask once for all pods instead of once for each, or use ListAndWatch and wait.",
)
async def rate(stage: AgentStage) -> None:
    """Count calls for a while in which nothing changes."""
    await stage.peers()
    since = time.monotonic()
    await asyncio.sleep(RATE_WATCHED_S)
    if (rate := len(stage.calls(since)) / RATE_WATCHED_S) > RATE_MOST:
        raise Failed(f"it made {rate:g} calls per second while nothing changed")


LARGE_LIST_PODS, PADDING, LAST = 60, 100_000, "the-last-of-many"


@run(
    "The agent takes a list of more than 4 MiB.",
    phase="calls",
    rule="A list may have up to 16 MiB, the limit of kubelet's own client; gRPC's default is 4 MiB.",
    source=POD_RESOURCES_CLIENT,
    advice="Set the largest message that the client receives to 16 MiB (grpc.max_receive_message_length).",
)
async def large_list(stage: AgentStage) -> None:
    """Add large pods, and look whether the agent lives and shows the last."""
    await stage.peers()
    since = time.monotonic()
    for number in range(LARGE_LIST_PODS):
        stage.server.pods.add(f"large-{number}", PADDING)
    stage.server.pods.add(LAST)
    stage.server.changes.notify()
    try:
        if not await stage.watches():
            await stage.returns("after a list of 6 MB", since)
        await stage.shown(lambda text: LAST in text, f"pod {LAST} in a list of 6 MB is not shown")
    finally:
        stage.restore()
