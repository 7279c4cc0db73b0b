"""A runtime that is not ours: the containerd that is installed. Debian 12's 1.6 streams no events (generic PLEG), later
ones do, and stamp nothing (hint)."""

import asyncio
import signal

import pytest

from tests.support.containerd import Containerd, pleg_mode, why_not
from tests.support.pleg_node import PlegNode, agrees

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "usable")


async def _restarted(runtime: Containerd, node: PlegNode) -> None:
    """S2: what runs goes on; what changes while containerd is away is seen within two seconds of its return."""
    lives = await runtime.run((await runtime.call("ListPodSandbox")).items[0].id, "sleep", "1000", name="lives")
    await node.until(lambda: node.is_in("uid-p", lives, "running"))
    await runtime.kill()
    await node.until(lambda: not node.runtime_state.connected, what="away")
    await runtime.start()
    await node.until(lambda: node.runtime_state.connected, what="back")
    await runtime.call("StopContainer", container_id=lives, timeout=0)
    await node.until(lambda: node.is_in("uid-p", lives, "exited"))
    await node.until(lambda: node.state.mode == pleg_mode(), what="the mode as before")


@pytest.mark.scenario("S17")
async def test_a_pods_life_by_cri_and_pleg() -> None:
    """Also S2 and K2 as far as a runtime without events allows: pleg is killed while the container ends."""

    async with Containerd() as runtime:
        await runtime.ready()
        async with PlegNode(runtime.settings) as node, asyncio.timeout(200):
            await node.until(lambda: node.state.healthy, what="first relist")
            await node.until(lambda: node.runtime_state.name == "containerd", what="word of the runtime")
            streams = pleg_mode() != "generic"
            await node.until(lambda: node.runtime_state.events_supported == streams, what="word of the events")
            await node.until(lambda: node.runtime_state.streaming == streams, what="the stream")
            sandbox = await runtime.sandbox("p", host=True)
            await node.until(lambda: node.state.mode == pleg_mode(), what="the mode of this containerd")
            id_ = await runtime.run(sandbox, "sleep", "1000")
            assert [(item.id, item.state) for item in (await node.newer("uid-p")).containers] == [(id_, "running")]
            short = await runtime.run(sandbox, "sh", "-c", "exit 3", name="short")
            await node.until(lambda: node.is_in("uid-p", short, "exited"), what="exit")
            item = node.container("uid-p", short)
            assert item is not None
            assert item.exit_code == 3
            await node.end("pleg", signal.SIGKILL)
            await runtime.call("StopContainer", container_id=id_, timeout=0)
            node.start("pleg")
            await node.until(lambda: node.is_in("uid-p", id_, "exited"), what="the death meanwhile")
            await agrees(node, runtime)
            await _restarted(runtime, node)
            await runtime.call("StopPodSandbox", pod_sandbox_id=sandbox)
            await runtime.call("RemovePodSandbox", pod_sandbox_id=sandbox)
            await node.until(lambda: "uid-p" not in node.statuses.items, what="gone")
            assert await node.metric("pleg", "kube_pod_missed_events") == 0
