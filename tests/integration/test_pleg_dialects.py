"""pleg on runtimes that stream events as containerd 1.7, containerd 2 and CRI-O do.

None of the three is packaged for Debian 12: a front before the embedded runtime tells its events in the way in which
the real ones were seen to tell theirs (tests/support/dialects.py). test_containerd.py runs on whichever containerd is
installed.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.lying_runtime import LyingRuntime
from tests.support.pleg_node import PlegNode, agrees
from tests.support.runtime import RuntimeProcess

STARVED = {"nodeplane.dev/hollow-oom": "true", "nodeplane.dev/hollow-duration": "50ms"}
MODES = {"containerd-1.7": "hint", "containerd-2": "hint", "crio": "evented"}


@asynccontextmanager
async def playing(dialect: str) -> AsyncIterator[tuple[RuntimeProcess, PlegNode, LyingRuntime]]:
    async with (
        RuntimeProcess() as runtime,
        LyingRuntime(runtime, dialect) as liar,
        PlegNode(liar.settings) as node,
        asyncio.timeout(200),
    ):
        await node.until(lambda: node.state.healthy, what="first relist")
        yield runtime, node, liar
        assert not node.backwards, node.backwards
        assert node.alive(), node.errors()
        assert "Traceback" not in node.errors()


@pytest.mark.parametrize("dialect", ["containerd-2", "crio"])
async def test_lives_and_deaths(dialect: str) -> None:
    """S15, S6 and traps 10, 13, 15, 16: short lives whose end may be told first, a failed start that nobody tells of,
    a second sandbox of one pod, removal while the sandbox's status is gone."""
    async with playing(dialect) as (runtime, node, liar):
        old = await runtime.sandbox("p")
        ids = [await runtime.run(old, "true", name=f"c{n}") for n in range(10)]
        await node.until(lambda: node.state.mode == MODES[dialect], what=dialect)
        await node.until(lambda: all(node.is_in("uid-p", id_, "exited") for id_ in ids), what="short lives")
        broken = await runtime.create(old, "/no/such/program", name="broken")
        with pytest.raises(Exception, match="no/such/program"):
            await runtime.call("StartContainer", container_id=broken)
        assert node.container("uid-p", broken) is None or (await node.newer("uid-p")).uid
        await node.until(lambda: node.is_in("uid-p", broken, "exited"), what="the failed start, without an event")
        await runtime.call("StopPodSandbox", pod_sandbox_id=old)
        new = await runtime.sandbox("p", attempt=1)
        lives = await runtime.run(new, "sleep", "1000", name="lives")
        await runtime.call("RemovePodSandbox", pod_sandbox_id=old)
        liar.lie("late-oom")
        starved = await runtime.create(new, image="hollow/x", name="starved", annotations=STARVED)
        await runtime.call("StartContainer", container_id=starved)

        def reason() -> str:
            known = node.container("uid-p", starved)
            return known.reason if known is not None and known.state == "exited" else ""

        await node.until(lambda: reason() == "OOMKilled", what="why it was killed, which no event tells")
        await agrees(node, runtime)
        assert node.is_in("uid-p", lives, "running"), "the older sandbox took the newer one's container with it"
        assert not [event for event in node.heard.events if event[1:] == ("ContainerDied", lives)]


@pytest.mark.parametrize("dialect", ["containerd-1.7", "crio"])
async def test_a_backlog_is_no_news(dialect: str) -> None:
    """S4, S5, trap 14: what happened while nobody listened comes first at the next subscription, long after it is
    known by lists. (One queue of 1000 in containerd 1.7, all but the
    first ones in containerd 2, nothing in CRI-O.)"""
    async with playing(dialect) as (runtime, node, _):
        stays = await runtime.run(await runtime.sandbox("stays"), "sleep", "1000")
        doomed = await runtime.sandbox("doomed")
        await node.until(lambda: node.state.mode == MODES[dialect], what=dialect)
        await node.until(lambda: ("uid-stays", "ContainerStarted", stays) in node.heard.events, what="its start")
        heard = len(node.heard.events)
        await node.end("cri", signal.SIGKILL)
        os.kill(int(runtime.started(stays)["pid"]), signal.SIGKILL)
        await runtime.ended(stays)
        await runtime.call("RemovePodSandbox", pod_sandbox_id=doomed)
        node.start("cri")
        await node.until(lambda: node.is_in("uid-stays", stays, "exited"), what="the death nobody heard of")
        await node.until(lambda: "uid-doomed" not in node.statuses.items)
        await node.until(lambda: node.runtime_state.streaming and node.state.mode == MODES[dialect])
        died = ("uid-stays", "ContainerDied", stays)
        await node.until(lambda: died in node.heard.events, what="the death on the other stream")
        await asyncio.sleep(0.3)
        told = [type_ for _, type_, id_ in node.heard.events[heard:] if id_ == stays]
        assert told == ["ContainerDied"], "the backlog was taken for news"
        assert "uid-doomed" not in node.statuses.items, "a late event brought a deleted pod back"
        await agrees(node, runtime)


async def test_a_pleg_that_is_held_up_holds_nobody_else_up() -> None:
    """Trap 17: containerd's calls hang while its subscriber does not read. cri reads on whatever its followers do; a
    pleg that read the stream itself would lose it here."""

    async with RuntimeProcess() as runtime, PlegNode(runtime.settings) as node, asyncio.timeout(200):
        await node.until(lambda: node.state.healthy and node.state.mode == "evented")
        errors = "kubelet_evented_pleg_connection_error_count"
        before = await node.metric("cri", errors)
        node.processes["pleg"].send_signal(signal.SIGSTOP)
        try:
            sandbox = await runtime.sandbox("p")
            for number in range(100):
                id = await runtime.create(sandbox, image="hollow/x", name=f"c{number}", annotations=STARVED)
                await runtime.call("StartContainer", container_id=id)
            await runtime.ended(id)
            assert await node.metric("cri", errors) == before
        finally:
            node.processes["pleg"].send_signal(signal.SIGCONT)
        await agrees(node, runtime)
