"""How long a plugin that was here before is waited for."""

import asyncio
import logging
import time
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.connections import PluginConnections, PluginConnectionsOptions, PluginStatusTable
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.types import PluginDevice, PluginOptions
from protocols.messages.devices import PluginView
from protocols.messages.trace import SpanBatch, SpanQuery
from protocols.trace import RECORDER, span

KNOWN = "example.com/gpu"


def plugins(inventory: Inventory, patience: float) -> PluginConnections:
    options = PluginConnectionsOptions(
        directory=Path("/nowhere"),
        inventory=inventory,
        limits=CallDeadlines(reconnect_wait=patience),
        metrics=DeviceMetrics(CollectorRegistry()),
        changed=lambda resource: None,
        registered=lambda resource: None,
        log=logging.getLogger("test"),
    )
    return PluginConnections(options)


async def test_one_that_does_not_come_back_is_waited_for_once() -> None:
    async def story() -> float:
        waiting = plugins(Inventory([KNOWN]), 0.2)
        began = time.monotonic()
        await asyncio.gather(*(waiting.wait_registered(KNOWN) for _ in range(3)))
        await waiting.wait_registered(KNOWN)
        return time.monotonic() - began

    assert 0.2 <= (await story()) < 20


async def test_wait_for_a_plugin_is_a_step_of_the_pod() -> None:
    with span("u-waits", "allocate"):
        await plugins(Inventory([KNOWN]), 0.01).wait_registered(KNOWN)
        await plugins(Inventory([KNOWN]), 0.0).wait_registered(KNOWN)
    answer = msgspec.msgpack.encode(RECORDER.answer(SpanQuery(pod="u-waits"), 1))
    steps = msgspec.msgpack.decode(answer, type=SpanBatch).spans
    assert [(step.name, step.attributes) for step in steps] == [
        ("wait for plugin", {"resource": KNOWN}),
        ("allocate", {}),
    ]


async def test_nobody_waits_for_what_was_never_here_or_has_reported() -> None:
    inventory = Inventory([KNOWN])
    waiting = plugins(inventory, 60)
    generation = inventory.register(KNOWN)
    inventory.report(KNOWN, generation, PluginOptions(), [])
    inventory.disconnect(KNOWN, generation, 0.0)
    async with asyncio.timeout(20):
        await waiting.wait_registered(KNOWN)
        await waiting.wait_registered("example.com/other")


def view(resource: str, socket: str) -> PluginView:
    return PluginView(resource, socket)


def test_the_table_shows_serving_waiting_and_last_plugins() -> None:
    told: list[tuple[str, str]] = []
    board = PluginStatusTable(lambda op, key, view: told.append((op.name, f"{view.socket} {view.state}")))
    board.registered(1, view(KNOWN, "one"))
    board.reported(KNOWN, 1)
    board.reported(KNOWN, 1)
    board.registered(2, view(KNOWN, "two"))
    board.reported(KNOWN, 2)
    board.ended(KNOWN, 1, "closed")
    board.ended(KNOWN, 2, "lost")
    board.ended(KNOWN, 2, "twice")
    assert [(item.socket, item.state, item.why) for item in board.views.values()] == [("two", "gone", "twice")]
    board.registered(3, view(KNOWN, "three"))
    assert [(item.socket, item.state) for item in board.views.values()] == [("three", "silent")]
    assert told[:4] == [
        ("UPSERT", "one silent"),
        ("UPSERT", "one serves"),
        ("UPSERT", "two silent"),
        ("UPSERT", "one replaced"),
    ]


@pytest.mark.scenario("S04")
def test_devices_of_a_missing_plugin_are_dropped_after_the_grace_but_not_the_resource() -> None:
    inventory = Inventory()
    generation = inventory.register(KNOWN)
    inventory.report(KNOWN, generation, PluginOptions(), [PluginDevice("a", True), PluginDevice("b", True)])
    inventory.disconnect(KNOWN, generation, 100.0)
    assert (inventory.healthy(KNOWN), len(inventory.view(KNOWN).devices), inventory.registered(KNOWN)) == ([], 2, True)
    assert inventory.expire(399.0, 300.0) == []
    assert inventory.expire(400.0, 300.0) == [KNOWN]
    assert (inventory.view(KNOWN).devices, inventory.registered(KNOWN)) == ((), False)
    assert inventory.all_healthy() == {}
    inventory.report(KNOWN, inventory.register(KNOWN), PluginOptions(), [PluginDevice("a", True)])
    assert inventory.all_healthy() == {KNOWN: ["a"]}


def test_a_plugin_that_ends_before_its_first_list_is_registered_until_the_grace_is_over() -> None:
    inventory = Inventory()
    assert inventory.disconnect(KNOWN, inventory.register(KNOWN), 100.0)
    assert not inventory.disconnect(KNOWN, inventory.register(KNOWN), 200.0)
    assert inventory.expire(399.0, 300.0) == []
    assert inventory.registered(KNOWN)
    assert inventory.expire(400.0, 300.0) == [KNOWN]
    assert not inventory.registered(KNOWN)


def test_a_plugin_expected_back_is_registered_with_nothing_until_the_grace_is_over() -> None:
    inventory = Inventory([KNOWN, "example.com/old"])
    inventory.expect([KNOWN], 100.0)
    assert inventory.all_healthy() == {KNOWN: []}
    assert inventory.expire(400.0, 300.0) == [KNOWN]
    assert inventory.all_healthy() == {}
    assert set(inventory.resources) == {KNOWN, "example.com/old"}
