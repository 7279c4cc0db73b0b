"""The node's lease: renewals that come late make the node look whether it was given up meanwhile."""

import asyncio

import pytest

from actors.podworker.node import lease
from actors.podworker.node import status_updater as agent
from actors.podworker.node.status_updater import NodeState, NodeStatusOptions, NodeStatusUpdater
from protocols.kinds.table import LEASES, NODES, Resource
from protocols.kube.errors import ApiAway
from protocols.kube.meta import condition, uid_of
from protocols.lifecycle.node.lease import NAMESPACE
from protocols.lifecycle.node.status import MachineInfo
from tests.support.memory_api import MemoryApi
from tests.support.waiting import until_async

MACHINE = MachineInfo("10.0.0.5", 4, 1024, 2048, "amd64", "6.1", "Debian", "mid", "bid")


async def ready(api: MemoryApi, wanted: str) -> None:
    def found() -> object:
        return condition(api.objects["nodes"].get("n1", {}), "Ready") or {}

    await until_async(f"Ready={wanted}", found, good=lambda seen: seen.get("status") == wanted)


async def test_a_node_given_up_while_its_api_was_away_says_again_that_it_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.02)
    monkeypatch.setattr(lease, "RETRY_MOST_S", 0.02)
    monkeypatch.setattr(lease, "RETRY_FIRST_S", 0.02)
    monkeypatch.setattr(agent, "RETRY_MOST_S", 0.02)
    clock, told = [0.0], list[str]()
    monkeypatch.setattr(lease, "now_s", lambda: clock[0])

    api = MemoryApi()
    options = NodeStatusOptions("n1", MACHINE, api, lambda: NodeState(()), lambda: None, told.append)  # type: ignore[arg-type] # answers as one
    node = NodeStatusUpdater(options)
    tasks = [asyncio.create_task(node.run()), asyncio.create_task(node.keep_lease())]
    try:
        await ready(api, "True")
        api.fault = lambda verb, resource, name: away(resource)
        await until_async("it notices that its API is away", lambda: told)
        clock[0] = 60.0
        lost = api.objects["nodes"]["n1"]
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "lost"}
        api.put(NODES, {**lost, "status": {**lost["status"], "conditions": [unknown]}})
        api.fault = lambda verb, resource, name: None
        await ready(api, "True")
        assert told[-1] == ""
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_lease_of_a_node_registered_again_has_the_new_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.02)
    monkeypatch.setattr(agent, "RETRY_FIRST_S", 0.02)
    api = MemoryApi()
    options = NodeStatusOptions("n1", MACHINE, api, lambda: NodeState(()), lambda: None)  # type: ignore[arg-type] # answers as one
    node = NodeStatusUpdater(options)
    tasks = [asyncio.create_task(node.run()), asyncio.create_task(node.keep_lease())]

    def owner() -> str:
        found = api.objects["leases"].get(f"{NAMESPACE}/n1") or {}
        return next((one["uid"] for one in found.get("metadata", {}).get("ownerReferences", ())), "")

    try:
        first = await until_async("a lease", owner)
        api.drop(NODES, "n1")
        monkeypatch.setattr(node, "_heartbeat_due", 0.0)
        node.wake()
        uid = await until_async("a new node", lambda: uid_of(api.objects["nodes"].get("n1", {})))
        assert uid != first
        await until_async("podworker knows it", lambda: node.uid() == uid)
        api.drop(LEASES, "n1", NAMESPACE)  # as the garbage collector does
        await until_async("the new node's lease", lambda: owner() == uid)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def away(resource: Resource) -> Exception | None:
    return ApiAway("no route") if resource is LEASES else None
