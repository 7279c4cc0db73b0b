"""A resource that is new to the node is on disk before any registration of it is answered."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from actors.devices.plugins.connections import PluginConnections


async def test_second_registration_waits_for_the_write_of_the_first() -> None:
    resources, written = dict[str, int](), asyncio.Event()
    inventory = SimpleNamespace(resources=resources, register=lambda name: resources.setdefault(name, 1))
    options = SimpleNamespace(inventory=inventory, registered=lambda name: None, wait_written=written.wait)
    connections = PluginConnections.__new__(PluginConnections)
    connections._options, connections._unwritten = cast("Any", options), set()
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(connections._add_generation("example.com/gpu")) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in both)
        written.set()
