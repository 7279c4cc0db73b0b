"""Events lost, doubled, turned around, held back, cut or wrongly stamped: what pleg tells stays right."""

import asyncio
import os
import random
import re
import signal

import pytest

from tests.integration.test_pleg import pid_of, running_pleg
from tests.support.pleg_node import PlegNode, agrees
from tests.support.waiting import until_async

MISSED = 'kube_pod_missed_events{cause="runtime"'


@pytest.mark.scenario("S11")
async def test_seven_dropped_stops_are_seven_missed_events() -> None:
    """S11. Found by the relist, counted once each, and the runtime is not relied upon for a while."""

    async with running_pleg() as (runtime, node):
        await node.evented()
        ids = [await runtime.run(await runtime.sandbox(f"p{n}"), "sleep", "1000") for n in range(9)]
        await node.until(lambda: all(node.is_in(f"uid-p{n}", id_, "running") for n, id_ in enumerate(ids)))
        await node.newer("uid-p0")
        assert node.state.mode == "evented"
        await node.chaos("drop-events", count=7)
        for id_ in ids[:7]:
            os.kill(await pid_of(runtime, id_), signal.SIGKILL)
            await runtime.ended(id_)
        os.kill(await pid_of(runtime, ids[7]), signal.SIGKILL)
        await node.until(lambda: node.is_in("uid-p7", ids[7], "exited"), what="the eighth, which was told")
        for n in range(7):
            assert [item.state for item in (await node.newer(f"uid-p{n}")).containers] == ["exited"]
        await node.until(lambda: node.state.mode == "hint", what="suspicion")
        await counted(node, MISSED, 7)
        assert await node.metric("pleg", MISSED + ',transition="stopped"') == 7
        await agrees(node, runtime)


async def test_lost_last_stop_is_found_by_the_runtimes_number_of_events() -> None:
    """No event follows it on a quiet node, and the next relist would come after 300 s."""

    async with running_pleg(log_level="debug") as (runtime, node):
        await node.evented()
        id_ = await runtime.run(await runtime.sandbox("p"), "sleep", "1000")
        await node.until(lambda: node.is_in("uid-p", id_, "running"))
        await node.chaos("drop-events", count=1)
        os.kill(await pid_of(runtime, id_), signal.SIGKILL)
        await node.until(lambda: node.is_in("uid-p", id_, "exited"), what="the death that no event told")
        assert await node.metric("pleg", "nodeplane_pleg_lost_events_total") == 1
        # The sandbox's event has it inspected, which may show the container before its own event comes.
        for source, type_ in (("(event|inspection)", "ContainerStarted"), ("relist", "ContainerDied")):
            line = f"PodLifecycleEvent source={source} mode=evented pod_uid=uid-p type={type_} id={id_}"
            assert len(re.findall(line, node.errors())) == 1, line


async def counted(node: PlegNode, metric: str, count: int) -> None:
    """Each waits for its own grace to be over."""
    await until_async(f"{count} of {metric}", lambda: node.metric("pleg", metric), good=lambda seen: seen >= count)
    assert await node.metric("pleg", metric) == count


@pytest.mark.scenario("S4", "S5")
async def test_a_stalled_stream_is_made_up_for_and_its_backlog_does_no_harm() -> None:
    """S4, S5: what was held back comes late, after the pod was inspected or has gone."""

    async with running_pleg() as (runtime, node):
        await node.evented()
        await node.chaos("stall")
        sandbox, doomed = await runtime.sandbox("p"), await runtime.sandbox("q")
        id_ = await runtime.run(sandbox, "true")
        await runtime.ended(id_)
        await node.newer("uid-q")
        await runtime.call("RemovePodSandbox", pod_sandbox_id=doomed)
        assert [item.state for item in (await node.newer("uid-p")).containers] == ["exited"]
        assert (await node.newer("uid-q")).sandboxes == ()
        await node.until(lambda: ("uid-p", "ContainerDied", id_) in node.heard.events, what="the list's news")
        events = await silent(node)
        await node.chaos("clear")
        await asyncio.sleep(0.5)
        assert node.heard.events[events:] == [], "the backlog was taken for news"
        assert "uid-q" not in node.statuses.items, "a late event brought a deleted pod back"
        await agrees(node, runtime)


async def silent(node: PlegNode) -> int:
    """Once nothing more is told for a second: how many events were."""
    while True:
        told = len(node.heard.events)
        await asyncio.sleep(1.0)
        if len(node.heard.events) == told:
            return told


@pytest.mark.scenario("S15")
@pytest.mark.parametrize("mode", ["evented", "generic"])
async def test_short_lived_containers_are_reported(mode: str) -> None:
    """S15: 100 containers that end at once; by events each is seen to start and to die, by lists at least to die."""

    async with running_pleg(pleg_mode=mode) as (runtime, node):
        await node.until(lambda: node.state.mode == mode)
        sandbox = await runtime.sandbox("p")
        hollow = {"image": "hollow/x", "annotations": {"nodeplane.dev/hollow-duration": "1ms"}}
        ids = [await runtime.run(sandbox, name=f"c{n}", **hollow) for n in range(100)]
        await node.until(lambda: all(node.is_in("uid-p", id_, "exited") for id_ in ids))
        kinds = ["ContainerDied", "ContainerStarted"] if mode == "evented" else ["ContainerDied"]
        due = {("uid-p", kind, id_) for kind in kinds for id_ in ids}
        await node.until(lambda: due <= set(node.heard.events), what="lives told of on the other stream")
        told = [event for event in node.heard.events if event in due]
        assert len(told) == len(due), "told twice"
        assert await node.metric("pleg", MISSED) == 0
        await agrees(node, runtime)


@pytest.mark.scenario("S16", "I4")
async def test_hint_mode_comes_to_the_runtimes_truth() -> None:
    """S16: a script of operations under events lost, doubled and turned around by chance; the end is the truth.

    Of the other modes the simulation shows it.
    """

    async with running_pleg(pleg_mode="hint") as (runtime, node):
        dice, sandboxes, ids = random.Random(2), [await runtime.sandbox("p0")], list[str]()
        await node.until(lambda: node.state.healthy)
        for step in range(40):
            roll = dice.random()
            if roll < 0.15:
                await node.chaos(dice.choice(["drop-events", "duplicate-events", "reorder-events", "clear"]), count=2)
            elif roll < 0.3:
                sandboxes.append(await runtime.sandbox(f"q{step}"))
            elif roll < 0.4 and len(sandboxes) > 1:
                await runtime.call("RemovePodSandbox", pod_sandbox_id=sandboxes.pop(1))
            elif roll < 0.5 and ids:
                await runtime.call("StopContainer", container_id=dice.choice(ids), timeout=0)
            else:
                annotations = {"nodeplane.dev/hollow-duration": dice.choice(["1ms", "50ms", "1h"])}
                where = dice.choice(sandboxes)
                ids.append(await runtime.run(where, name=f"c{step}", image="hollow/x", annotations=annotations))
        await node.chaos("clear")
        await node.chaos("disconnect")
        await agrees(node, runtime)
