"""The server starts, restarts, hangs and rejects calls."""

import asyncio
import time

from supervisor.conform.agent.agent_stage import WATCH, AgentStage
from supervisor.conform.busy import check_idle
from supervisor.conform.program_stage import START_FACTOR
from supervisor.conform.scripts import run
from supervisor.conform.verdict import Failed

SETTLE_S = 0.3
"""gRPC sends a call again by itself if the server ends before it has sent a header."""


@run
async def server_restarts(stage: AgentStage) -> None:
    """Restart the server twice."""
    await stage.peers()
    for _ in range(2):
        await asyncio.sleep(SETTLE_S)
        await stage.server.stop()
        since = time.monotonic()
        await stage.server.start()
        await stage.returns("after the restart of the kubelet", since)


AWAY_S = 2.0


@run
async def server_away(stage: AgentStage) -> None:
    """Stop the server, and start it later."""
    await stage.peers()
    await stage.server.stop()
    await asyncio.sleep(AWAY_S)
    stage.check_runs()
    since = time.monotonic()
    await stage.server.start()
    await stage.returns(f"after {AWAY_S:g} s without a kubelet", since)


PAUSE_S = 0.5


@run
async def server_hangs(stage: AgentStage) -> None:
    """Answer nothing until the call that came is over, and restart the server."""
    await stage.peers()
    stage.server.hanging = True
    try:
        since = time.monotonic()
        if stage.server.open:
            await stage.server.stop()
            await stage.server.start()
        await stage.returns("with broken streams,", since)
        deadlines = [call.seconds for call in stage.calls(since) if call.seconds is not None]
        await asyncio.sleep(min(max(deadlines, default=0.0), stage.timeout) + PAUSE_S)
        stage.check_runs()
        await stage.server.stop()
    finally:
        stage.server.hanging = False
    since = time.monotonic()
    await stage.server.start()
    await stage.returns("after the restart of a kubelet that hung,", since)


HEAD_START_S = 2.0


@run
async def server_starts_later(stage: AgentStage) -> None:
    """Start the program, and then the server."""
    await stage.peers()
    await stage.start_alone(HEAD_START_S, "the socket")
    await stage.server.start()
    await stage.returns("after its start without a kubelet", 0.0, stage.timeout * START_FACTOR)


GONE, NEW = "gone-meanwhile", "new-meanwhile"


@run
async def shows_after_restart(stage: AgentStage) -> None:
    """Stop the server, delete a pod, add another, and start it."""
    await stage.peers()
    pods = stage.server.pods
    try:
        await stage.shows_new(GONE)
        await stage.server.stop()
        pods.delete(GONE)
        pods.add(NEW)
        await stage.server.start()
        await stage.shown(lambda text: NEW in text, f"pod {NEW} was added without a kubelet and is not shown")
        await stage.shown(lambda text: GONE not in text, f"pod {GONE} ended without a kubelet and is still shown")
    finally:
        stage.restore()


RESUMES_SETTLE_S = 1.0


@run
async def resumes(stage: AgentStage) -> None:
    """Break the stream, and look at the calls that follow the new one."""
    await stage.needs_watch()
    await stage.server.stop()
    since = time.monotonic()
    await stage.server.start()
    await stage.returns("after its stream broke,", since)
    await stage.until(lambda: any(call.method == WATCH for call in stage.calls(since)), stage.timeout)
    await asyncio.sleep(RESUMES_SETTLE_S)
    if not any(call.method == "List" for call in stage.calls(since)):
        raise Failed("it opened ListAndWatch again, without List: it knows pods that are gone, and misses new ones")


@run
async def no_watch(stage: AgentStage) -> None:
    """Restart the server without a watch."""
    await stage.needs_watch()
    await stage.server.stop()
    stage.server.unsupported = (WATCH, "ListAndWatchAllocatableResources")
    try:
        await stage.server.start()
        since = time.monotonic()
        if not await stage.until(lambda: _lists(stage, since) > 1, stage.timeout):
            stage.check_runs()
            times = f"List was called {_lists(stage, since)} times"
            raise Failed(f"ListAndWatch was answered with UNIMPLEMENTED; within {stage.timeout:g} s {times}")
    finally:
        stage.soil()
        stage.restore()


def _lists(stage: AgentStage, since: float) -> int:
    return sum(call.method == "List" for call in stage.calls(since))


FAILING_S, MOST = 2.0, 20
"""Seconds, and calls that an agent with a back-off may make in them."""


async def _survives(stage: AgentStage, code: str) -> None:
    """Break open streams, answer with the code, then answer as before. Raises Failed."""
    await stage.peers()
    stage.server.failing = code
    since = time.monotonic()
    if stage.server.open:
        await stage.server.stop()
        await stage.server.start()
    await stage.returns("with broken streams,", since)
    await asyncio.sleep(FAILING_S)
    calls = len(stage.calls(since))
    stage.check_runs()
    again = time.monotonic()
    stage.server.failing = ""
    await stage.returns(f"after calls that were answered with {code},", again)
    if calls > MOST:
        raise Failed(f"it made {calls} calls within {FAILING_S:g} s that were answered with {code}")


@run
async def resource_exhausted(stage: AgentStage) -> None:
    """Fail all calls for a while."""
    await _survives(stage, "RESOURCE_EXHAUSTED")


@run
async def unavailable(stage: AgentStage) -> None:
    """Fail all calls for a while."""
    await _survives(stage, "UNAVAILABLE")


@run
async def waits_idle(stage: AgentStage) -> None:
    """Stop the server, and watch the threads of the agent."""
    await stage.peers()
    await stage.server.stop()
    await check_idle(stage.program, "without a kubelet")
    stage.check_runs()
    since = time.monotonic()
    await stage.server.start()
    await stage.returns("after some seconds without a kubelet", since)
