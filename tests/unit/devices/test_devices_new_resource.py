"""Registrations of one resource, or of many new ones, at once."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.devices.model.errors import RegistrationRejected
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins import connections as module
from actors.devices.plugins.connections import (
    OLD_CONNECTIONS,
    PluginConnection,
    PluginConnections,
    PluginConnectionsOptions,
)
from actors.devices.plugins.plugin import PluginEndpoint
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.types import PluginDevice, PluginOptions
from tests.support.waiting import until_async

R = "example.com/gpu"


class SilentPlugin:
    """A plugin that never sends a list."""

    def __init__(self) -> None:
        self.endpoint, self.options = PluginEndpoint(R, Path("/nowhere"), CallDeadlines()), PluginOptions()
        self.closed = False

    async def lists(self) -> AsyncIterator[list[PluginDevice]]:
        await asyncio.Future()
        yield []

    async def close(self) -> None:
        self.closed = True


def plugin_connections() -> PluginConnections:
    return PluginConnections(
        PluginConnectionsOptions(
            directory=Path("/nowhere"),
            inventory=Inventory(),
            limits=CallDeadlines(),
            metrics=DeviceMetrics(CollectorRegistry()),
            changed=lambda resource: None,
            registered=lambda resource: None,
            log=logging.getLogger(),
        )
    )


async def test_second_registration_waits_for_the_write_of_the_first() -> None:
    resources, written = dict[str, int](), asyncio.Event()
    inventory = SimpleNamespace(resources=resources, register=lambda name: resources.setdefault(name, 1))
    options = SimpleNamespace(inventory=inventory, registered=lambda name: None, wait_written=written.wait)
    connections = PluginConnections.__new__(PluginConnections)
    connections._options, connections._unwritten = cast("Any", options), set()
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(connections._add_generation(R)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in both)
        written.set()


async def test_new_resources_that_connect_at_once_stay_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESOURCES", 1)
    connections = plugin_connections()
    await connections._add_generation(R)
    with pytest.raises(RegistrationRejected, match="no room for"):
        await connections._add_generation("example.com/nic")
    await connections._add_generation(R)


async def test_connections_displaced_before_their_first_step_are_closed() -> None:
    connections = plugin_connections()
    plugins = [SilentPlugin() for _ in range(OLD_CONNECTIONS + 4)]
    for plugin in plugins:  # in one step of the loop
        generation = await connections._add_generation(R)
        connections._replace(PluginConnection(cast("Any", plugin), generation))
    await until_async("the displaced ones are closed", lambda: sum(plugin.closed for plugin in plugins) == 3)
    assert len(connections._connections[R]) == OLD_CONNECTIONS + 1
    await connections.disconnect(R, Path("/nowhere"))
    assert all(plugin.closed for plugin in plugins)
    await connections.close()
