"""What is kept from pod to pod equals what a look at every node finds, whatever happens between two pods."""

import asyncio
import functools
import random
import time
from collections.abc import Iterable

import pytest

from actors.scheduler.claims import device_fit
from actors.scheduler.claims.device_fit import NOT_ALLOCATABLE, DeviceFit
from actors.scheduler.claims.verified_fits import VerifiedFits
from actors.scheduler.cycles.scheduling_cycle import SchedulingCycle
from actors.scheduler.model.changes import MAX_CHANGES, Changes
from actors.scheduler.model.claim_demand import Demand, Fit
from actors.scheduler.model.turns import PAUSE_S, ExclusiveTurns, Pacer
from actors.scheduler.model.views import NodeView, node_view
from actors.scheduler.nodes.node_cache import reasons
from actors.scheduler.nodes.node_table import FIT_WEIGHT, NodeTable, NodeTables
from actors.scheduler.nodes.scoring import NodeScorer
from protocols.dra.allocator.claims import claim_of
from protocols.kinds.table import DEVICECLASSES, NODES, PODS, RESOURCECLAIMS
from protocols.kube.meta import meta
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    Life,
    bound,
    devices,
    heard,
    held,
    held_by_all,
    node_of,
    put_claim,
    put_class,
    put_node,
    put_pod,
    put_slice,
    the,
    until,
)


def check_tables(placement: SchedulingCycle) -> int:
    """Compare each table with a look at all nodes, but for those that changed since; return how many were compared."""
    cache, compared = placement.cache, 0
    tables = placement.devices.tables._tables
    for (shape, _), table in tables.items():
        view = next((pod for _, pod in cache.placed.values() if pod.shape == shape), None)
        if view is None or table.revision != placement.devices.revision:
            continue
        changed = set(cache.changes.since(table.position))
        scorer = NodeScorer(view, {}, random.Random(0))
        for name, load in cache.nodes.items():
            if name in changed:
                continue
            compared += 1
            if reasons(view, load):
                assert name not in table.scores
            elif name in table.scores:
                assert table.scores[name] % FIT_WEIGHT == scorer.score(load)
                assert placement.devices.fit._is_still_free(table.fits[name], Demand())
        assert not table.scores.keys() - cache.nodes.keys() - changed
    return compared


@pytest.mark.parametrize("seed", range(3))
async def test_tables_equal_a_look_at_all_nodes(seed: int) -> None:
    api, chance = MemoryApi(seed), random.Random(seed)
    put_class(api)
    for at in range(6):
        put_node(api, f"n{at}", pods=4)
        put_slice(api, f"n{at}", *devices(3))
    compared = 0
    async with asyncio.timeout(60), Life(api) as life:
        for number in range(40):
            match chance.randrange(8):
                case 0 | 1 | 2:
                    put_claim(api, f"c{number}", count=chance.choice([1, 2]))
                    put_pod(api, f"p{number}", f"c{number}")
                case 3 | 4:
                    put_pod(api, f"p{number}")
                case 5 if api.objects["pods"]:
                    pod = chance.choice(list(api.objects["pods"].values()))
                    api.drop(PODS, meta(pod)["name"], "ns")
                    for claim in list(api.objects["resourceclaims"].values()):
                        if meta(claim)["name"] == "c" + meta(pod)["name"][1:]:
                            api.drop(RESOURCECLAIMS, meta(claim)["name"], "ns")
                case 6:
                    name = f"n{chance.randrange(6)}"
                    node = api.objects["nodes"].get(name)
                    if node is not None:
                        api.put(NODES, {**node, "spec": {"unschedulable": chance.random() < 0.5}})
                case 7:
                    put_slice(api, f"n{chance.randrange(6)}", *devices(chance.randint(1, 4)))
            if chance.random() < 0.5:
                await heard()
                compared += check_tables(life.scheduler._scheduling)
        await heard()
        taken = held_by_all(api)
        assert len(taken) == len(set(taken))
    assert compared > 20


async def test_slices_that_change_during_a_search_are_searched_by_the_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    api, fits = MemoryApi(), DeviceFit.fits
    put_class(api)
    for name in ("n1", "n2", "n3"):
        put_node(api, name)
        put_slice(api, name, *devices(1))

    async def changing(self: DeviceFit, demand: Demand, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        found = await fits(self, demand, nodes)
        if not bound(api):
            for node in ("n1", "n2", "n3"):
                put_slice(api, node, {"name": "new"})
            await heard()
        return found

    monkeypatch.setattr(DeviceFit, "fits", changing)
    async with asyncio.timeout(60), Life(api):
        for name in "ab":
            put_claim(api, name)
            put_pod(api, name, name)
            await until("bound", functools.partial(node_of, api, name))
        assert held(api, "b") == [f"{node_of(api, 'b')}/new"]


async def test_search_that_a_change_of_classes_outdates_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    api, rest = MemoryApi(), ExclusiveTurns.rest
    put_class(api, "gpu", 'device.driver == "other"')
    put_node(api, "n1")
    put_slice(api, "n1", *devices(1))

    async def changing(self: ExclusiveTurns) -> None:
        if the(api, DEVICECLASSES, "gpu")["spec"]["selectors"]:
            put_class(api)
            await heard()
        await rest(self)

    monkeypatch.setattr(ExclusiveTurns, "rest", changing)
    monkeypatch.setattr(device_fit, "NODE_AT_ONCE_S", -1.0)
    monkeypatch.setattr(device_fit, "TURN_STEPS", 1)
    async with asyncio.timeout(60), Life(api):
        put_claim(api, "a")
        put_pod(api, "a", "a")
        await until("bound", lambda: node_of(api, "a"))


async def test_pod_goes_to_no_node_that_is_gone() -> None:
    api = MemoryApi()
    put_node(api, "n1")
    put_node(api, "n2")
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "a")
        await until("bound", lambda: node_of(api, "a"))
        other = {"n1", "n2"} - {node_of(api, "a")}
        api.drop(NODES, other.pop())
        await heard()
        for name in "bcd":
            put_pod(api, name)
        await until("all on one node", lambda: all(node_of(api, name) == node_of(api, "a") for name in "bcd"))


async def test_devices_of_a_deleted_node_are_forgotten() -> None:
    api = MemoryApi()
    put_class(api)
    async with asyncio.timeout(60), Life(api) as life:
        fit = life.scheduler._devices.fit
        for number in range(3):
            name = f"n{number}"
            put_node(api, name)
            put_slice(api, name, *devices(2))
            put_claim(api, f"c{number}")
            put_pod(api, f"p{number}", f"c{number}")
            await until("bound", functools.partial(node_of, api, f"p{number}"))
            assert fit.verified._stamps
            api.drop(NODES, name)
            await until("forgotten", lambda: not fit._node_devices)
    verified = fit.verified
    assert [verified._nodes, verified._stamps, verified._pools] == [{}, {}, {}]
    assert not any(each._entries for each in verified._by_demand.values())


def test_verified_fits_follow_the_pools_that_a_node_reaches() -> None:
    verified, demand, changed = VerifiedFits(), Demand(unallocated=(claim_of({}),), signature=b"s"), list[str]()
    verified.changed = changed.append
    node = node_view({"metadata": {"name": "n"}})
    verified.reaches("n", [("d", "old")])
    verified.reaches("n", [("d", "new")])
    verified.of(demand, 1).put(node, Fit())
    verified.touched(("d", "old"))
    assert verified.of(demand, 1).get(node)
    verified.touched(("d", "new"))
    assert verified.of(demand, 1).get(node) is None
    assert changed == ["n"]


def test_changes_are_known_from_a_position_on_and_bounded() -> None:
    changes = Changes()
    for name in ("a", "b", "a"):
        changes.mark(name)
    assert list(changes.since(0)) == ["a", "b"]
    assert list(changes.since(2)) == ["a"]
    assert list(changes.since(changes.position)) == []
    before = changes.position
    for number in range(MAX_CHANGES + 1):
        changes.mark(f"n{number}")
    assert not changes.is_known(before)
    assert changes.is_known(changes.position)


def test_devices_listed_first_outrank_room() -> None:
    table = NodeTable(0, (0, 0))
    table.put("roomy", 700, Fit(score=1))
    table.put("first choice", 1, Fit(score=2))
    assert table.best() == ["first choice"]
    tables = NodeTables()
    tables.put((b"s", b"d"), table)
    assert tables.get((b"s", b"d"), (0, 0)) is table
    assert tables.get((b"s", b"d"), (0, 1)) is None
    assert Fit(NOT_ALLOCATABLE).score == 0


async def test_turns_are_taken_by_one_at_a_time() -> None:
    pacer = Pacer()

    async def compute() -> None:
        async with pacer.turns() as turns:
            for _ in range(5):
                await turns.rest()

    began = time.perf_counter()
    tasks = [asyncio.create_task(compute()) for _ in range(4)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert time.perf_counter() - began > 15 * PAUSE_S
    async with asyncio.timeout(20), pacer.turns():
        pass
