"""How long a plugin that was here before is waited for."""

import asyncio
import logging
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from actors.devices.metrics import DeviceMetrics
from actors.devices.plugins.inventory import Inventory
from actors.devices.plugins.plugins import Plugins, PluginsOptions
from actors.devices.types import Limits, PluginOptions

KNOWN = "example.com/gpu"


def plugins(inventory: Inventory, patience: float) -> Plugins:
    options = PluginsOptions(
        directory=Path("/nowhere"),
        inventory=inventory,
        limits=Limits(come_back=patience),
        metrics=DeviceMetrics(CollectorRegistry()),
        changed=lambda resource: None,
        registered=lambda resource: None,
        log=logging.getLogger("test"),
    )
    return Plugins(options)


def test_one_that_does_not_come_back_is_waited_for_once() -> None:
    async def story() -> float:
        waiting = plugins(Inventory([KNOWN]), 0.2)
        began = time.monotonic()
        await asyncio.gather(*(waiting.returned(KNOWN) for _ in range(3)))
        await waiting.returned(KNOWN)
        return time.monotonic() - began

    assert 0.2 <= asyncio.run(story()) < 2


def test_nobody_waits_for_what_was_never_here_or_has_reported() -> None:
    async def story() -> None:
        inventory = Inventory([KNOWN])
        waiting = plugins(inventory, 60)
        generation = inventory.register(KNOWN)
        inventory.report(KNOWN, generation, PluginOptions(), [])
        inventory.disconnect(KNOWN, generation, 0.0)
        async with asyncio.timeout(1):
            await waiting.returned(KNOWN)
            await waiting.returned("example.com/other")

    asyncio.run(story())
