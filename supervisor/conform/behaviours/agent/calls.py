"""Number, kind and deadlines of an agent's calls."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.scripts import run
from supervisor.conform.verdict import Failed, NotApplicable


@run
async def calls(stage: AgentStage) -> None:
    """Wait for the first call."""
    try:
        await stage.peers()
    except NotServing as error:
        raise Failed(error.why) from None


PODS, WATCHED_S = 60, 2.0


@run
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


@run
async def connections(stage: AgentStage) -> None:
    """Count connections before and after some calls."""
    await stage.peers()
    calls, before = stage.server.counted, stage.server.connections()
    if not await stage.until(lambda: stage.server.counted >= calls + CALLS, stage.timeout):
        raise NotApplicable(f"it made fewer than {CALLS} calls within {stage.timeout:g} s")
    if (more := stage.server.connections() - before) >= MOST:
        raise Failed(f"with {stage.server.counted - calls} calls it opened {more} connections that it did not close")


@run
async def deadlines(stage: AgentStage) -> None:
    """Look at the deadlines of the unary calls."""
    unary = [call for call in await stage.peers() if not call.streams]
    if not unary:
        raise NotApplicable("it made no calls but streams")
    if without := sorted({call.method for call in unary if call.seconds is None}):
        raise Failed(f"{', '.join(without)} has no deadline")


RATE_WATCHED_S, RATE_MOST = 2.0, 10


@run
async def rate(stage: AgentStage) -> None:
    """Count calls for a while in which nothing changes."""
    await stage.peers()
    since = time.monotonic()
    await asyncio.sleep(RATE_WATCHED_S)
    if (rate := len(stage.calls(since)) / RATE_WATCHED_S) > RATE_MOST:
        raise Failed(f"it made {rate:g} calls per second while nothing changed")


LARGE_LIST_PODS, PADDING, LAST = 60, 100_000, "the-last-of-many"


@run
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
