"""pleg and cri on the real embedded runtime: nothing is lost, whoever is killed, and nobody is released early."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocols.bus import BusError
from tests.support.pleg_node import PlegNode, agrees
from tests.support.runtime import RuntimeProcess


@asynccontextmanager
async def running_pleg(**changes: Any) -> AsyncIterator[tuple[RuntimeProcess, PlegNode]]:
    async with RuntimeProcess() as runtime, PlegNode(runtime.settings, **changes) as node:
        async with asyncio.timeout(180):
            await node.until(lambda: node.state.healthy, what="first relist")
            yield runtime, node
        assert node.alive(), node.errors()
        assert not node.backwards, node.backwards


async def lives(runtime: RuntimeProcess, node: PlegNode, name: str = "p") -> None:
    """One container from start to removal; each step must reach the stream soon."""
    sandbox, uid = await runtime.sandbox(name), f"uid-{name}"
    id_ = await runtime.run(sandbox, "sleep", "1000")
    await node.until(lambda: node.is_in(uid, id_, "running"), what="running")
    running = 'kubelet_running_containers{container_state="running"}'
    assert (await node.metric("pleg", "kubelet_running_pods "), await node.metric("pleg", running)) == (1, 1)
    os.kill(await pid_of(runtime, id_), signal.SIGKILL)
    await node.until(lambda: node.is_in(uid, id_, "exited"), what="exited")
    item = node.container(uid, id_)
    assert item is not None
    assert item.exit_code == 137
    await runtime.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    await node.until(lambda: uid not in node.statuses.items, what="gone")
    assert (await node.metric("pleg", "kubelet_running_pods "), await node.metric("pleg", running)) == (0, 0)

    def types() -> list[str]:
        return [type_ for _, type_, what in node.heard.events if what == id_]

    await node.until(lambda: len(types()) >= 3, what="its life on the other stream")
    assert types() == ["ContainerStarted", "ContainerDied", "ContainerRemoved"]


async def pid_of(runtime: RuntimeProcess, id_: str) -> int:
    return int(runtime.started(id_)["pid"])


@pytest.mark.parametrize("mode", ["auto", "hint", "generic"])
async def test_a_containers_life_in_each_mode(mode: str) -> None:
    async with running_pleg(pleg_mode=mode) as (runtime, node):
        wanted = "evented" if mode == "auto" else mode
        await node.until(lambda: node.state.mode == wanted, what=wanted)
        await lives(runtime, node)
        await agrees(node, runtime)
        assert await node.metric("pleg", "kube_pod_missed_events") == 0


async def test_gate_off_is_generic_without_an_event_stream() -> None:
    async with running_pleg(feature_gates={"EventedPLEG": False}) as (runtime, node):
        await lives(runtime, node)
        assert node.state.mode == "generic"
        assert "EventedPLEG" in node.state.why
        assert await node.metric("cri", "kubelet_evented_pleg") == 0
        assert await node.metric("pleg", "kubelet_evented_pleg_connection_latency_seconds_count") == 0


@pytest.mark.scenario("I2")
async def test_newer_than_is_strict_and_released_by_an_inspection() -> None:
    """Nothing happens in the runtime, so no event comes: upstream would wait for its 5 s tick, or for 300 s."""

    async with running_pleg() as (runtime, node):
        await node.evented()
        sandbox = await runtime.sandbox("p")
        id_ = await runtime.create(sandbox, "sleep", "1000")
        await runtime.call("StartContainer", container_id=id_)
        asked = time.time_ns()
        status = await node.newer("uid-p", asked)
        assert [(item.id, item.state) for item in status.containers] == [(id_, "running")], "I2"
        assert status.timestamp_ns > asked
        began = time.monotonic()
        assert (await node.newer("uid-p")).timestamp_ns > asked
        assert (await node.newer("uid-of-nobody")).sandboxes == ()
        assert time.monotonic() - began < 60
        with pytest.raises(BusError, match="nothing newer"):
            await node.newer("uid-p", time.time_ns() + 10**12, timeout=3)


async def test_nothing_is_lost_when_the_runtime_is_killed_while_containers_end() -> None:
    """The simulation kills cri and pleg as well; here the containers are real and outlive the runtime."""
    async with running_pleg() as (runtime, node):
        await node.evented()
        ids = [await runtime.run(await runtime.sandbox(f"p{n}"), "sleep", "1000") for n in range(2)]
        pids = [await pid_of(runtime, id_) for id_ in ids]
        await runtime.kill()
        os.kill(pids[0], signal.SIGKILL)
        await runtime.start()
        await node.until(lambda: node.is_in("uid-p0", ids[0], "exited"), what="the death during the gap")
        os.kill(pids[1], signal.SIGKILL)
        await node.until(lambda: node.is_in("uid-p1", ids[1], "exited"), what="the death after it")
        await agrees(node, runtime)
        await node.evented()


@pytest.mark.scenario("S2")
async def test_a_quick_restart_of_the_runtime_brings_the_stream_back_at_once() -> None:
    """S2: upstream burns its five attempts within a millisecond and never returns to events."""

    async with running_pleg() as (runtime, node):
        await node.evented()
        opened = await node.metric("cri", "kubelet_evented_pleg_connection_success_count")
        await runtime.kill()
        await node.until(lambda: not node.runtime_state.streaming, what="noticed")
        assert node.state.mode == "generic" or not node.runtime_state.streaming
        await runtime.start()
        began = time.monotonic()
        await node.until(lambda: node.runtime_state.streaming, what="streaming again")
        assert time.monotonic() - began < 40
        await node.evented()
        assert await node.metric("cri", "kubelet_evented_pleg_connection_success_count") == opened + 1
        assert await node.metric("cri", "kubelet_evented_pleg_connection_error_count") >= 1
        assert await node.metric("pleg", 'kube_pod_missed_events{cause="runtime"') == 0


@pytest.mark.scenario("S14")
async def test_a_stopped_runtime_is_reported_and_recovers() -> None:
    async with running_pleg() as (runtime, node):
        await node.evented()
        id_ = await runtime.run(await runtime.sandbox("p"), "sleep", "1000")
        pid = await pid_of(runtime, id_)
        os.kill(runtime.pid, signal.SIGSTOP)
        try:
            await node.until(lambda: not node.runtime_state.connected, what="a hung runtime is noticed")
            await node.until(lambda: node.state.mode == "generic")
            os.kill(pid, signal.SIGKILL)
        finally:
            os.kill(runtime.pid, signal.SIGCONT)
        await node.until(lambda: node.is_in("uid-p", id_, "exited"), what="the death meanwhile")
        await node.evented()
        await agrees(node, runtime)
