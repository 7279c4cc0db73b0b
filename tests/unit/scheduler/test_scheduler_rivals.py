"""Two schedulers at work by mistake, news that come late, and kills: no device is ever used by two bound pods."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler import actor
from actors.scheduler.claims.claim_store import ClaimStore
from actors.scheduler.claims.device_ledger import DeviceLedger
from actors.scheduler.nodes.node_cache import Cache
from protocols.dra.allocator.types import Holdings
from protocols.dra.types import DeviceId
from protocols.kinds import views
from protocols.kinds.table import PODS, RESOURCECLAIMS, Resource
from protocols.kube.meta import Object, meta
from tests.support.memory_api import Fault, MemoryApi, RestoredApi, conflict
from tests.support.scheduler_life import (
    Life,
    allocate,
    bound,
    devices,
    flaky,
    heard,
    held,
    node_of,
    put_claim,
    put_class,
    put_node,
    put_pod,
    put_slice,
    running,
    short_life,
    the,
    try_in_reverse,
    until,
)


class Watched(MemoryApi):
    """After each change: what do bound pods use?"""

    def _store(self, resource: Resource, obj: Object) -> Object:
        stored = super()._store(resource, obj)
        if resource in (PODS, RESOURCECLAIMS):
            users = list(self._used())
            assert len(users) == len(set(users)), f"used twice after {meta(obj)['name']}: {sorted(users)}"
        return stored

    def _used(self) -> Iterator[str]:
        claims = {
            entry["resourceClaimName"]
            for pod in self.objects["pods"].values()
            if pod["spec"].get("nodeName")
            for entry in pod["spec"]["resourceClaims"]
        }
        for claim in claims:
            yield from held(self, claim)


def fill(api: MemoryApi, pods: int) -> None:
    put_class(api)
    for at in range(3):
        put_node(api, f"n{at}")
        put_slice(api, f"n{at}", *devices(4))
    for at in range(pods):
        put_claim(api, f"c{at}")
        put_pod(api, f"p{at}", f"c{at}")


@pytest.mark.parametrize("seed", range(6))
async def test_two_schedulers_by_mistake_give_no_device_twice(seed: int) -> None:
    api = Watched(seed)
    chance = random.Random(seed)
    fill(api, 12)
    async with Life(api), Life(api) as other:
        try_in_reverse(other)
        api.lose = flaky(chance)
        await until("some are bound", lambda: len(bound(api)) >= 4)
        api.lose = lambda verb, resource, name: None
        await until("all are bound", lambda: len(bound(api)) == 12)
    taken = [device for at in range(12) for device in held(api, f"c{at}")]
    assert len(taken) == len(set(taken)) == 12


@pytest.mark.parametrize("seed", range(4))
async def test_killed_at_any_time_the_next_one_goes_on(seed: int) -> None:
    api = Watched(seed)
    chance = random.Random(seed)
    fill(api, 12)
    lives = 0
    while len(bound(api)) < 12 and lives < 60:
        await short_life(api, chance.randint(1, 120) if lives < 25 else 3000)
        lives += 1
    async with Life(api):
        await until("all are bound", lambda: len(bound(api)) == 12)


def another_binds(api: MemoryApi, claim: str, device: str) -> None:
    """As another scheduler does: claim and pod of the claim's name, on node n0."""
    allocate(api, claim, "n0", device, f"p{claim}")
    pod = the(api, PODS, f"p{claim}")
    api.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "n0"}})


def before_the_first_allocation(api: MemoryApi, act: Callable[[], None]) -> Fault:
    """`act` is called as the write of the first allocation is under way."""

    def fault(verb: str, resource: Resource, name: str) -> Exception | None:
        if verb == "update" and resource is RESOURCECLAIMS and not held(api, "a") and not held(api, "b"):
            api.fault = lambda verb, resource, name: None
            act()
        return None

    return fault


def put_two(api: MemoryApi, count: int) -> None:
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", *devices(count))
    for name in "ab":
        put_claim(api, name)
        put_pod(api, f"p{name}", name)


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_pod_bound_or_replaced_while_nodes_are_looked_at_takes_no_room(
    is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, feasible, calls = MemoryApi(), Cache.feasible, list[str]()
    put_two(api, 1)
    api.drop(PODS, "pb", "ns")

    async def slow(self: Cache, *given: Any) -> Any:
        if not calls:
            calls.append("")
            if is_replaced:
                api.drop(PODS, "pa", "ns")
            running(api, "pa", "elsewhere", "a")
            await heard()
        return await feasible(self, *given)

    monkeypatch.setattr(Cache, "feasible", slow)
    async with asyncio.timeout(60), Life(api) as life:
        await until("tried", lambda: calls)
        await heard()
        placed = {uid: node for uid, (node, _) in life.scheduler._cache.placed.items()}
        assert placed == {meta(the(api, PODS, "pa"))["uid"]: "elsewhere"}
        assert not held(api, "a")


async def test_the_claim_that_came_second_is_given_back_before_its_pod_is_bound() -> None:
    api = Watched()
    put_two(api, 1)
    async with Life(api) as first:
        first.scheduler._queue.remove(meta(the(api, PODS, "pb"))["uid"])
        api.fault = before_the_first_allocation(api, lambda: another_binds(api, "b", "dev-0"))
        await until("b has it", lambda: held(api, "b"))
        await until("a gave it back", lambda: not held(api, "a") and node_of(api, "pb") == "n0")
        await asyncio.sleep(0.1)
        assert node_of(api, "pa") == ""


class Read(Watched):
    """`reading` is called as a claim is about to be read."""

    def __init__(self, reading: Callable[[], None]) -> None:
        super().__init__()
        self._reading = reading

    async def get(self, resource: Resource, name: str, namespace: str = "", timeout: float | None = None) -> Object:
        if resource is RESOURCECLAIMS and name == "a":
            self._reading()
        return await super().get(resource, name, namespace, timeout)


async def test_what_another_one_allocated_anew_is_not_given_back() -> None:
    done = asyncio.Event()

    def anew() -> None:
        """The other one was faster: what was lost is given back already, and the pod bound on another device."""
        if held(api, "a") == held(api, "b") == ["n0/dev-0"]:
            api.put(RESOURCECLAIMS, {**the(api, RESOURCECLAIMS, "a"), "status": {}})
            another_binds(api, "a", "dev-1")
            done.set()

    api = Read(anew)
    put_two(api, 2)
    async with Life(api) as first:
        first.scheduler._queue.remove(meta(the(api, PODS, "pb"))["uid"])
        api.fault = before_the_first_allocation(api, lambda: another_binds(api, "b", "dev-0"))
        await asyncio.wait_for(done.wait(), 30)
        await heard()
    assert (held(api, "a"), held(api, "b")) == (["n0/dev-1"], ["n0/dev-0"])


async def test_without_news_of_the_own_write_nothing_is_bound() -> None:
    api = Watched()
    fill(api, 1)
    async with Life(api):
        await heard()
        api.drop(PODS, "p0", "ns")
        api.deaf.add("resourceclaims")
        put_claim(api, "late")
        api.deaf.clear()
        await heard()
        api.deaf.add("resourceclaims")
        put_pod(api, "q", "late")
        await until("allocated", lambda: held(api, "late"))
        await asyncio.sleep(0.1)
        assert node_of(api, "q") == ""
        api.deaf.clear()
        await until("bound", lambda: node_of(api, "q"))


async def test_a_pod_whose_reservation_a_restored_backup_took_before_its_binding_came_gets_its_claim_again() -> None:
    api = Watched()
    fill(api, 1)
    api.drop(PODS, "p0", "ns")
    put_claim(api, "late")
    bind = api.gates["create", "pods", "q"] = asyncio.Event()
    async with Life(api):
        await heard()
        put_pod(api, "q", "late")
        await until("allocated", lambda: held(api, "late"))
        await heard()
        api.put(RESOURCECLAIMS, {**the(api, RESOURCECLAIMS, "late"), "status": {}})
        bind.set()
        await until("bound", lambda: node_of(api, "q"))
    assert held(api, "late") == [f"{node_of(api, 'q')}/dev-0"]


async def test_pod_whose_binding_a_restored_backup_lacks_is_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "UNSEEN_S", 0.05)
    api = RestoredApi()
    put_node(api, "n1")
    put_pod(api, "p")
    async with Life(api):
        await until("the pod is bound again", lambda: api.lost and node_of(api, "p"))


@pytest.mark.parametrize("others", [True, False])
async def test_a_pod_that_a_backup_gave_back_is_not_bound_by_its_claim_of_before(others: bool) -> None:
    """Its claim was allocated to it then, and is free in the backup, or another pod's."""
    api = Watched()
    put_two(api, 1)
    allocate(api, "a", "n0", "dev-0", "pa")
    before, pod = the(api, RESOURCECLAIMS, "a"), the(api, PODS, "pa")
    api.drop(PODS, "pa", "ns")
    api.drop(PODS, "pb", "ns")
    async with Life(api) as life:
        await until("known", lambda: life.scheduler._devices.claims.get("ns/a"))
        api.deaf.add("resourceclaims")
        other = [{"resource": "pods", "name": "other", "uid": "other"}]
        api.put(RESOURCECLAIMS, {**before, "status": {**before["status"], "reservedFor": other} if others else {}})
        api.put(PODS, pod)
        await until("tried", lambda: life.scheduler._queue.counts(0.0)["backoff"])
        assert node_of(api, "pa") == ""
        api.deaf.clear()
        await until("bound", lambda: node_of(api, "pa"))
    assert held(api, "a") == ["n0/dev-0"]


# the ledger

CLAIMS = st.sampled_from("abc")
DEVICES = st.frozensets(st.builds(DeviceId, st.just("d"), st.just("p"), st.sampled_from("xyz")), max_size=2)
STEPS: st.SearchStrategy[tuple[str, str, frozenset[DeviceId]]] = st.one_of(
    st.tuples(st.just("saw"), CLAIMS, DEVICES),
    st.tuples(st.just("listed"), CLAIMS, DEVICES),
    st.tuples(st.just("promise"), CLAIMS, DEVICES),
    st.tuples(st.just("withdraw"), CLAIMS, st.just(frozenset())),
)


@given(st.lists(STEPS, max_size=30))
def test_the_ledger_agrees_with_a_naive_one(steps: list[tuple[str, str, frozenset[DeviceId]]]) -> None:
    ledger = DeviceLedger()
    held_: dict[str, dict[DeviceId, int]] = {}
    promised: dict[str, Holdings] = {}
    clock = 0
    for step, claim, ids in steps:
        wanted = dict.fromkeys(ids)
        revisions = ledger.revisions([("d", "p")])
        before = {device for each in (*held_.values(), *promised.values()) for device in each}
        if step in ("saw", "listed"):
            clock += 1
            old = held_.get(claim, {})
            order = clock if step == "saw" else 0
            held_[claim] = {device: old.get(device, order) for device in wanted}
            ledger.observe(claim, wanted, ordered=step == "saw")
        elif step == "promise" and claim not in promised:
            free = not wanted.keys() & before
            assert ledger.reserve(claim, wanted) == free
            if free:
                promised[claim] = wanted
        elif step == "withdraw":
            promised.pop(claim, None)
            ledger.release(claim)
        taken = {device for each in (*held_.values(), *promised.values()) for device in each}
        assert {device for device in before | taken | wanted.keys() if device in ledger} == taken
        assert (ledger.revisions([("d", "p")]) != revisions) or before == taken
        for each, mine in held_.items():
            rivals = {
                other
                for other, theirs in held_.items()
                for device in mine.keys() & theirs.keys()
                if other != each and (theirs[device] < mine[device] or mine[device] == 0)
            }
            assert ledger.conflicting_claims(each) == rivals


def told(name: str, version: int, device: str = "") -> views.ResourceClaim:
    result = {"request": "r", "driver": "d", "pool": "p", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    return cast(
        "views.ResourceClaim",
        {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)},
            "status": status,
        },
    )


def test_a_reservation_ends_when_the_watch_confirms_it() -> None:
    ledger = DeviceLedger()
    store = ClaimStore(ledger)
    x = DeviceId("d", "p", "x")
    store.observe(told("a", 1))
    assert ledger.reserve("a", {x: None})
    store.assume(told("a", 3, "x"))
    assert store.get("ns/a") == told("a", 3, "x")
    store.observe(told("a", 2))
    assert x in ledger
    assert ledger.is_reserved("a"), "older news"
    store.observe(told("a", 3, "x"))
    assert x in ledger
    assert not ledger.is_reserved("a")
    store.observe(told("a", 4))
    assert x not in ledger


def test_own_write_that_the_api_does_not_have_is_forgotten() -> None:
    """A backup that was restored right after it lacks it, and no watch shows that."""
    ledger = DeviceLedger()
    store = ClaimStore(ledger)
    x = DeviceId("d", "p", "x")
    store.observe(told("a", 1))
    ledger.reserve("a", {x: None})
    store.assume(told("a", 3, "x"))
    store.disprove(told("a", 3, "x"))
    assert store.get("ns/a") == told("a", 1)
    assert x not in ledger


def test_news_may_be_faster_than_the_answer_to_the_own_write() -> None:
    ledger = DeviceLedger()
    store = ClaimStore(ledger)
    x = DeviceId("d", "p", "x")
    store.observe(told("a", 1))
    ledger.reserve("a", {x: None})
    store.observe(told("a", 3, "x"))
    store.observe(told("a", 4))
    store.assume(told("a", 3, "x"))
    assert x not in ledger
    store.observe(told("b", 5))
    ledger.reserve("b", {x: None})
    store.remove(told("b", 6))
    store.assume(told("b", 5, "x"))
    assert x not in ledger


async def test_pod_whose_claim_is_taken_back_before_its_binding_goes_elsewhere() -> None:
    api = MemoryApi()
    put_class(api)
    for name in ("n1", "n2"):
        put_node(api, name)
        put_slice(api, name, *devices(1))
    put_claim(api, "c")
    put_claim(api, "other")
    running(api, "x", "n1", "other")
    put_pod(api, "p", "c")
    taken: list[str] = []

    def taking_back(verb: str, resource: Resource, name: str) -> Exception | None:
        if taken or (verb, resource) != ("create", PODS):
            return None
        claim = the(api, RESOURCECLAIMS, "c")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        taken.append(result["pool"])
        api.put(RESOURCECLAIMS, {**claim, "status": {}})
        allocate(api, "other", result["pool"], result["device"], "x")
        return conflict()

    api.fault = taking_back
    async with asyncio.timeout(60), Life(api):
        await until("p is bound", lambda: node_of(api, "p"))
    assert [node_of(api, "p")] != taken
