"""kill -9 of the device manager and of a plugin, and a damaged file. Deaths at every other moment: the simulation."""

import asyncio

import pytest

from tests.support.device_node import RESOURCE, running_node
from tests.support.pod_resources_client import Agent, PodEvent


async def test_a_pod_that_is_sooner_than_its_plugin_waits_for_it() -> None:
    """The manager was killed, not the plugin: nobody is refused for that."""

    async with running_node(actors=("devices",)) as node:
        plugin = await node.stub().with_devices("a").start()
        await node.settled(1, 1)
        await node.restart("devices")
        waiting = asyncio.create_task(node.admit("p1", main={RESOURCE: 1}))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        await plugin.stop()
        await plugin.start()
        await waiting
        await node.holds({"p1": ["a"]})


@pytest.mark.scenario("S25")
async def test_a_plugin_that_is_killed_takes_no_allocation_along() -> None:
    async with running_node(actors=("devices",)) as node:
        flags = ("--resource", RESOURCE, "--devices", "2")
        plugin = node.plugin(*flags)
        await node.settled(2, 2)
        await node.admit("p1", main={RESOURCE: 1})
        node.kill(f"plugin-{plugin.pid}")
        await node.settled(0, 2)
        node.plugin(*flags)
        await node.settled(2, 2)
        await node.admit("p2", main={RESOURCE: 1})
        await node.holds({"p1": ["gpu-0"], "p2": ["gpu-1"]})
        left = list(node.layout.device_plugins.glob("example.com-gpu-*.sock"))
        assert len(left) == 1, "the second one removes what kill -9 leaves of the first"


async def test_a_corrupt_checkpoint_is_kept_aside_and_reported() -> None:
    async with running_node() as node:
        agent = Agent(node.layout.pod_resources_socket)
        watch = await agent.watch()
        await node.admit("p1", main={})
        assert (await watch.next()).uid == "p1"
        path = node.layout.devices / "checkpoint.json"
        node.kill("devices")
        damaged = path.read_bytes().replace(b'"p1"', b'"p2"')
        path.write_bytes(damaged)
        node.start("devices")
        event = await watch.next()
        assert (event.action, event.uid) == (PodEvent.DELETED, "p1")
        assert path.with_name("checkpoint.json.corrupt").read_bytes() == damaged
        assert "is corrupt: its checksum does not match" in node.log("devices")
        await node.admit("p3", main={})
        assert (await watch.next()).uid == "p3"
        await agent.close()
