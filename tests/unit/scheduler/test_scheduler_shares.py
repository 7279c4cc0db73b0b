"""Shares of devices over claims, from the API's point of view: never more of a capacity than there is."""

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.claims.device_ledger import DeviceLedger
from protocols.dra.pods import results_of
from protocols.dra.types import DeviceId
from protocols.kinds.table import PODS, RESOURCECLAIMS, RESOURCESLICEPATCHES, Resource
from protocols.kube.meta import Object, meta, terminating
from protocols.kube.quantity import parse_quantity
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    DRIVER,
    Life,
    allocate,
    asking,
    bound,
    events_of,
    flaky,
    heard,
    held,
    node_of,
    put_claim,
    put_class,
    put_extended_class,
    put_node,
    put_pod,
    put_slice,
    says,
    shared,
    short_life,
    the,
    try_in_reverse,
    until,
)

ROOM = 10


def put_share(api: MemoryApi, name: str, amount: int) -> None:
    put_claim(api, f"c-{name}", capacity={"requests": {"m": str(amount)}})
    put_pod(api, name, f"c-{name}")


class Counted(MemoryApi):
    """After each change: what do claims of bound pods consume of each device?"""

    def _store(self, resource: Resource, obj: Object) -> Object:
        stored = super()._store(resource, obj)
        if resource in (PODS, RESOURCECLAIMS):
            over = {device: amount for device, amount in self.consumed().items() if amount > ROOM}
            assert not over, f"after {meta(obj)['name']}: {over}"
        return stored

    def consumed(self) -> Counter[tuple[str, str]]:
        bound_pods = [pod["spec"] for pod in self.objects["pods"].values() if pod["spec"].get("nodeName")]
        claims = {entry["resourceClaimName"] for spec in bound_pods for entry in spec["resourceClaims"]}
        found: Counter[tuple[str, str]] = Counter()
        for result in [each for claim in claims for each in results_of(the(self, RESOURCECLAIMS, claim))]:
            amount = parse_quantity(result["consumedCapacity"]["m"]).value()
            found[result["pool"], result["device"]] += amount
        return found


async def test_claims_share_a_device_until_its_capacity_is_consumed() -> None:
    api = Counted()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev"))
    async with Life(api) as life:
        for at in range(3):
            put_share(api, f"p{at}", 3)
        await until("all are bound", lambda: len(bound(api)) == 3)
        put_share(api, "late", 2)
        await until("late waits", lambda: "cannot allocate all claims" in says(api, "late"))
        put_share(api, "small", 1)
        await until("small is bound", lambda: node_of(api, "small"))
        assert api.consumed() == {("n0", "dev"): ROOM}
        results = [result for at in range(3) for result in results_of(the(api, RESOURCECLAIMS, f"c-p{at}"))]
        assert len({result["shareID"] for result in results}) == 3
        api.drop(PODS, "p0", "ns")
        api.drop(RESOURCECLAIMS, "c-p0", "ns")
        await until("late is bound", lambda: node_of(api, "late"))
        assert len(life.scheduler._devices.ledger) == 1


async def test_a_new_scheduler_counts_what_claims_consume() -> None:
    api = Counted()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev"))
    put_share(api, "p0", 7)
    async with Life(api):
        await until("p0 is bound", lambda: node_of(api, "p0"))
    put_share(api, "p1", 4)
    put_share(api, "p2", 3)
    async with Life(api):
        await until("p2 is bound", lambda: node_of(api, "p2"))
        await until("p1 waits", lambda: "cannot allocate all claims" in says(api, "p1"))


def fill(api: MemoryApi, chance: random.Random) -> int:
    """Put pods whose requests fill two devices on each of two nodes."""
    put_class(api)
    for node in ("n0", "n1"):
        put_node(api, node)
        put_slice(api, node, shared("a"), shared("b"))
    amounts = [amount for _ in range(4) for amount in chance.choice([(5, 5), (4, 4, 2), (8, 2), (10,)])]
    for at, amount in enumerate(sorted(amounts, reverse=True)):
        put_share(api, f"p{at}", amount)
    return len(amounts)


@pytest.mark.parametrize("seed", range(6))
async def test_two_schedulers_by_mistake_never_overcommit_capacity(seed: int) -> None:
    api = Counted(seed)
    chance = random.Random(seed)
    pods = fill(api, chance)
    async with Life(api), Life(api) as other:
        try_in_reverse(other)
        api.lose = flaky(chance)
        await until("some are bound", lambda: len(bound(api)) >= 2)
        api.lose = lambda verb, resource, name: None
        await until("what fits is bound", lambda: len(bound(api)) + waiting(api) == pods)
    assert all(amount <= ROOM for amount in api.consumed().values())


def waiting(api: MemoryApi) -> int:
    return sum("cannot allocate all claims" in says(api, meta(pod)["name"]) and not pod["spec"].get("nodeName")
               for pod in api.objects["pods"].values())  # fmt: skip


async def test_a_claim_with_an_exclusive_device_keeps_shares_from_it() -> None:
    """The driver began to share a device that is given away as a whole."""
    api = MemoryApi()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", {"name": "dev", "capacity": {"m": {"value": "10"}}})
    put_share(api, "p0", 1)
    async with Life(api):
        await until("p0 is bound", lambda: node_of(api, "p0"))
        assert "shareID" not in results_of(the(api, RESOURCECLAIMS, "c-p0"))[0]
        put_slice(api, "n0", shared("dev"), shared("two"))
        put_share(api, "p1", 1)
        await until("p1 is bound", lambda: node_of(api, "p1"))
        assert held(api, "c-p1") == ["n0/two"]


def put_patch(api: MemoryApi, amount: str) -> None:
    devices = {"filter": {"driver": DRIVER}, "capacity": {f"{DRIVER}/m": {"value": amount}}}
    api.put(RESOURCESLICEPATCHES, {"metadata": {"name": "less", "generation": 1}, "spec": {"devices": devices}})


async def test_capacity_lowered_below_what_is_consumed_admits_nothing_and_evicts_nobody() -> None:
    api = Counted()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev", default="2", validRange={"min": "2", "step": "2"}))
    async with Life(api) as life:
        put_share(api, "p0", 8)
        await until("p0 is bound", lambda: node_of(api, "p0"))
        put_patch(api, "5")
        text = f"device {DRIVER}/n0/dev: claims consume 8 of {DRIVER}/m, which is 5 now; nothing more is allocated"
        await until("an event", lambda: events_of(life, "DeviceCapacityExceeded"))
        ((key, _, message),) = events_of(life, "DeviceCapacityExceeded")
        assert key.endswith(f"n0-{DRIVER}")
        assert message == f"{text} until 3 are free, and nothing is evicted"
        put_share(api, "p1", 1)
        await until("p1 waits", lambda: "cannot allocate all claims" in says(api, "p1"))
        put_pod(api, "p2", "c-p0")
        await until("a pod of the same claim is bound", lambda: node_of(api, "p2"))
        assert held(api, "c-p0") == ["n0/dev"]
    put_pod(api, "p3", "c-p0")
    async with Life(api):
        await until("by the next scheduler too", lambda: node_of(api, "p3"))
        api.drop(RESOURCESLICEPATCHES, "less")
        await until("p1 is bound", lambda: node_of(api, "p1"))
        assert results_of(the(api, RESOURCECLAIMS, "c-p1"))[0]["consumedCapacity"] == {"m": "2"}


async def test_capacity_that_stays_lowered_has_one_event_over_restarts() -> None:
    api = Counted()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev"))

    def excesses() -> list[Object]:
        return [event for event in api.objects["events"].values() if event["reason"] == "DeviceCapacityExceeded"]

    async with Life(api):
        put_share(api, "p0", 8)
        await until("p0 is bound", lambda: node_of(api, "p0"))
    put_patch(api, "5")
    for _ in range(3):
        async with Life(api, writes_events=True) as life:
            await until("an event is written", partial(getattr, life.scheduler._tracker_events, "_written"))
    assert [excess["count"] for excess in excesses()] == [1]
    async with Life(api, writes_events=True):
        put_patch(api, "4")
        await until("another event", lambda: len(excesses()) == 2)


@pytest.mark.parametrize("seed", range(4))
async def test_killed_at_any_time_the_next_one_overcommits_nothing(seed: int) -> None:
    api = Counted(seed)
    chance = random.Random(seed)
    pods = fill(api, chance)
    lives = 0
    while len(bound(api)) + waiting(api) < pods and lives < 60:
        await short_life(api, chance.randint(1, 120) if lives < 25 else 3000)
        lives += 1
    async with Life(api):
        await until("what fits is bound", lambda: len(bound(api)) + waiting(api) == pods)
    assert all(amount <= ROOM for amount in api.consumed().values())


def put_used(api: MemoryApi, name: str, amount: int, priority: int) -> None:
    """Put a pod that runs on n0 with a share of dev."""
    put_claim(api, f"c-{name}", capacity={"requests": {"m": str(amount)}})
    put_pod(api, name, f"c-{name}", nodeName="n0", priority=priority)
    consumed = {"m": str(amount)}
    allocate(api, f"c-{name}", "n0", "dev", name, shareID=f"share-{name}", consumedCapacity=consumed)


async def test_shares_of_pods_of_lower_priority_make_room() -> None:
    api = Counted()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev"))
    for name, amount, priority in (("small", 2, 1), ("large", 5, 2), ("high", 3, 5)):
        put_used(api, name, amount, priority)
    async with Life(api):
        put_claim(api, "c-new", capacity={"requests": {"m": "5"}})
        put_pod(api, "new", "c-new", priority=4)
        await until("large is evicted", lambda: terminating(the(api, PODS, "large")))
        await heard()
        assert not terminating(the(api, PODS, "small")), "it would not free enough"
        api.drop(PODS, "large", "ns")
        api.drop(RESOURCECLAIMS, "c-large", "ns")
        await until("new is bound", lambda: node_of(api, "new"))
        assert api.consumed() == {("n0", "dev"): ROOM}


async def test_extended_resource_takes_the_default_of_a_shared_device() -> None:
    api = Counted()
    put_extended_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev", default="4"))
    async with Life(api):
        for name in ("p0", "p1", "p2"):
            put_pod(api, name, containers=asking())
        await until("two are bound", lambda: len(bound(api)) == 2)
        await until(
            "the third waits", lambda: "cannot allocate all claims" in "".join(says(api, f"p{n}") for n in range(3))
        )
    results = [each for claim in api.objects["resourceclaims"].values() for each in results_of(claim)]
    assert [result["consumedCapacity"] for result in results] == [{"m": "4"}, {"m": "4"}]


async def test_devices_are_given_away_whole_with_the_gate_off() -> None:
    api = MemoryApi()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("one"), shared("two"))
    for name in ("p0", "p1", "p2"):
        put_claim(api, f"c-{name}")
        put_pod(api, name, f"c-{name}")
    put_share(api, "stored", 1)
    async with Life(api, {"DRAConsumableCapacity": False}):
        await until("two are bound", lambda: len(bound(api)) == 2)
        await until("the third waits", lambda: waiting(api) == 1)
        await until("stored request", lambda: "DRAConsumableCapacity feature is disabled" in says(api, "stored"))
    results = [each for claim in api.objects["resourceclaims"].values() for each in results_of(claim)]
    assert sorted(result["device"] for result in results) == ["one", "two"]
    assert not any("shareID" in result for result in results)


@pytest.mark.parametrize("seed", range(6))
async def test_of_two_schedulers_one_killed_again_and_again_overcommits_nothing(seed: int) -> None:
    api = Counted(seed)
    chance = random.Random(seed)
    pods = fill(api, chance)
    lives = 0
    async with Life(api) as steady:
        try_in_reverse(steady)
        while len(bound(api)) + waiting(api) < pods and lives < 40:
            await short_life(api, chance.randint(1, 150))
            lives += 1
        await until("what fits is bound", lambda: len(bound(api)) + waiting(api) == pods)
    assert all(amount <= ROOM for amount in api.consumed().values())


async def test_a_share_that_came_second_is_given_back_by_the_next_scheduler_too() -> None:
    """The first one is killed between its write and the look at what came before it."""
    api = Counted()
    put_class(api)
    put_node(api, "n0")
    put_slice(api, "n0", shared("dev"))
    put_share(api, "late", 6)

    def rival(verb: str, resource: Resource, name: str) -> None:
        """Another scheduler is faster by one write."""
        if (
            verb == "update"
            and resource is RESOURCECLAIMS
            and meta(the(api, RESOURCECLAIMS, "c-late")).get("finalizers")
        ):
            api.fault = lambda verb, resource, name: None
            put_used(api, "first", 6, 0)
            api.deaf.add("resourceclaims")

    life = Life(api)
    api.fault = rival
    await life.scheduler.start()
    await until("allocated", lambda: held(api, "c-late"))
    await life.kill()
    api.deaf.clear()
    async with Life(api):
        await until("given back", lambda: not held(api, "c-late") and says(api, "late"))
        assert node_of(api, "late") == ""


# the ledger

X, Y = (DeviceId("d", "p", name) for name in "xy")
AMOUNTS = st.one_of(st.none(), st.integers(0, 6).map(lambda amount: {"m": amount}))
HOLDINGS = st.dictionaries(st.sampled_from((X, Y)), AMOUNTS, max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("saw"), st.sampled_from("abcd"), HOLDINGS),
    st.tuples(st.just("listed"), st.sampled_from("abcd"), HOLDINGS),
    st.tuples(st.just("reserve"), st.sampled_from("abcd"), HOLDINGS),
    st.tuples(st.just("release"), st.sampled_from("abcd"), st.none()),
    st.tuples(st.just("resize"), st.integers(0, 9), st.none()),
)


class Naive:
    """Holds and reservations as they came; every answer is computed anew."""

    def __init__(self) -> None:
        self.total, self.clock = 9, 0
        self.held: dict[str, dict[DeviceId, tuple[int, Any]]] = {}
        self.reserved: dict[str, dict[DeviceId, Any]] = {}

    def see(self, claim: str, holdings: dict[DeviceId, Any], ordered: bool) -> None:
        self.clock += 1
        old = self.held.get(claim, {})
        order = self.clock if ordered else 0
        self.held[claim] = {
            device: old[device] if device in old and old[device][1] == amounts else (order, amounts)
            for device, amounts in holdings.items()
        }

    def users(self, device: DeviceId) -> dict[str, Any]:
        """What each claim has of the device; held before reserved."""
        found = {claim: each[device] for claim, each in self.reserved.items() if device in each}
        return found | {claim: each[device][1] for claim, each in self.held.items() if device in each}

    def is_available(self, holdings: dict[DeviceId, Any]) -> bool:
        return all(self.free(device, amounts) for device, amounts in holdings.items())

    def free(self, device: DeviceId, amounts: Any) -> bool:
        users = self.users(device).values()
        reserved = [each[device] for each in self.reserved.values() if device in each]
        if amounts is None:
            return not users
        return (
            None not in users and None not in reserved and amounts["m"] + sum(user["m"] for user in users) <= self.total
        )

    def conflicts(self, claim: str) -> set[str]:
        found = set()
        for device, (order, amounts) in self.held.get(claim, {}).items():
            earlier = {
                other: each[device][1]
                for other, each in self.held.items()
                if other != claim and device in each and (each[device][0] < order or not order)
            }
            whole = {other for other, theirs in earlier.items() if theirs is None or amounts is None}
            if whole or amounts is None:
                found |= whole
            elif sum(each["m"] for each in earlier.values()) + amounts["m"] > self.total:
                found |= set(earlier)
        return found


@given(st.lists(STEPS, max_size=30))
def test_ledger_of_shares_agrees_with_a_naive_one(steps: list[tuple[str, Any, Any]]) -> None:
    naive = Naive()
    ledger = DeviceLedger(lambda device: {"m": naive.total})
    for step, claim, holdings in steps:
        freed, revisions = ledger.freed([("d", "p")]), ledger.revisions([("d", "p")])
        before = {device: naive.users(device) for device in (X, Y)}
        if step in ("saw", "listed"):
            naive.see(claim, holdings, step == "saw")
            ledger.observe(claim, holdings, ordered=step == "saw")
        elif step == "reserve" and claim not in naive.reserved:
            assert ledger.reserve(claim, holdings) == naive.is_available(holdings)
            if ledger.is_reserved(claim):
                naive.reserved[claim] = holdings
        elif step == "release":
            naive.reserved.pop(claim, None)
            ledger.release(claim)
        elif step == "resize":
            naive.total = claim
        after = {device: naive.users(device) for device in (X, Y)}
        assert ledger.revisions([("d", "p")]) != revisions or before == after
        if any(before[device].keys() - after[device].keys() for device in (X, Y)):
            assert ledger.freed([("d", "p")]) != freed
        for device, users in after.items():
            assert (device in ledger) == bool(users)
            reserved = [each[device] for each in naive.reserved.values() if device in each]
            whole = None in users.values() or None in reserved
            expected = None if whole else sum(user["m"] for user in users.values())
            known = ledger.consumed(device)
            assert (None if known is None else known.get("m", 0)) == expected
        assert all(ledger.conflicting_claims(each) == naive.conflicts(each) for each in naive.held)
