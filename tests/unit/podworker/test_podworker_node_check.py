"""The registered Node object: what others remove from it is put back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.podworker.node import status_updater as agent
from actors.podworker.node.status_updater import NodeState, NodeStatusOptions, NodeStatusUpdater
from protocols.kinds.table import NODES
from protocols.lifecycle.node.status import MachineInfo
from protocols.messages.devices import Placement, ResourceInventory
from tests.support.memory_api import MemoryApi
from tests.support.waiting import until_async

MACHINE = MachineInfo("10.0.0.5", 4, 1024, 2048, "amd64", "6.1", "Debian", "mid", "bid")


@asynccontextmanager
async def registered(
    monkeypatch: pytest.MonkeyPatch, api: MemoryApi | None = None, **state: Any
) -> AsyncIterator[MemoryApi]:
    monkeypatch.setattr(agent, "CHECK_S", 0.05)
    api = api or MemoryApi()
    options = NodeStatusOptions("n1", MACHINE, api, lambda: NodeState((), **state), lambda: None)  # type: ignore[arg-type] # answers as one
    task = asyncio.create_task(NodeStatusUpdater(options).run())
    try:
        await until(api, lambda: "n1" in api.objects["nodes"])
        yield api
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(api: MemoryApi, holds: Callable[[], bool]) -> None:
    await until_async("the node as it must be", lambda: dict(api.objects["nodes"]), good=lambda nodes: holds())


def labels(api: MemoryApi) -> Any:
    return api.objects["nodes"]["n1"]["metadata"]["labels"]


async def test_updater_changed_and_removed_labels_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with registered(monkeypatch) as api:
        node = api.objects["nodes"]["n1"]
        before = dict(labels(api))
        theirs = {"kubernetes.io/os": "dummyOS", "mine": "x"}
        api.put(NODES, {**node, "metadata": {**node["metadata"], "labels": theirs}})
        await until(api, lambda: labels(api) == {**before, "mine": "x"})


async def test_updater_extended_resource_of_another_client_is_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    async with registered(monkeypatch, inventory={}) as api:
        node = api.objects["nodes"]["n1"]
        capacity = {**node["status"]["capacity"], "example.com/dongle": "4"}
        api.put(NODES, {**node, "status": {**node["status"], "capacity": capacity}})
        await until(api, lambda: "example.com/dongle" in api.objects["nodes"]["n1"]["status"]["allocatable"])
        node = api.objects["nodes"]["n1"]
        api.put(NODES, {**node, "metadata": {**node["metadata"], "labels": {}}})
        await until(api, lambda: bool(labels(api)))
        for kind in ("capacity", "allocatable"):
            assert api.objects["nodes"]["n1"]["status"][kind]["example.com/dongle"] == "4"


def with_dongles(created: str) -> MemoryApi:
    """Return an API with a node whose capacity has dongles of another client and GPUs of a plugin."""
    api = MemoryApi()
    amounts = {"cpu": "1", "example.com/dongle": "4", "example.com/gpu": "2"}
    status = {"capacity": amounts, "allocatable": amounts}
    metadata = {"name": "n1", "creationTimestamp": created}
    api.put(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})
    return api


def shown(api: MemoryApi) -> dict[str, tuple[str, str]]:
    """Return capacity and allocatable by extended resource."""
    status = api.objects["nodes"]["n1"]["status"]
    names = [name for name in status["capacity"] if "/" in name]
    return {name: (status["capacity"][name], status["allocatable"][name]) for name in names}


LEDGER_BEGAN = Placement(online="0-3", memory=1 << 30, ledger_ns=1_767_225_600_000_000_000)
"""2026-01-01."""


async def test_updater_extended_resource_of_another_client_survives_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    api = with_dongles("2026-01-01T00:00:03Z")
    known = {"example.com/gpu": ResourceInventory("example.com/gpu", False)}
    async with registered(monkeypatch, api, inventory=known, placement=LEDGER_BEGAN):
        await until(api, lambda: shown(api)["example.com/gpu"] == ("0", "0"))
        assert shown(api)["example.com/dongle"] == ("4", "4")


async def test_updater_resources_of_a_lost_ledger_are_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    api = with_dongles("2025-12-31T00:00:00Z")
    async with registered(monkeypatch, api, inventory={}, placement=LEDGER_BEGAN):
        await until(api, lambda: set(shown(api).values()) == {("0", "0")})


async def test_updater_deleted_node_is_not_created_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    async with registered(monkeypatch) as api:
        del api.objects["nodes"]["n1"]
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert "n1" not in api.objects["nodes"]
