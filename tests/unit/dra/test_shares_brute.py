"""Shares found by the search are those found by trying everything, over random histories with patches and restarts."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.claims.device_ledger import DeviceLedger
from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import claim_of
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.pruning import PATIENCE
from protocols.dra.allocator.result import allocation
from protocols.dra.allocator.shares import held_by_picks, held_by_results
from protocols.dra.allocator.types import AllocationFault, Node
from protocols.dra.decode import patch_of, slice_of
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import DeviceId
from protocols.kube.quantity import NANO
from tests.support.allocator_objects import ANY, DRIVER, Kinds, claim_object, request_objects

NODE = Node("n1", {})
CLASSES = {"any": ANY}
SLOTS = 3
POLICIES: list[dict[str, Any]] = [
    {},
    {"default": 1},
    {"default": 2, "range": (2, 4, 2)},
    {"default": 0, "range": (0, 4, 3)},
    {"default": 1, "values": [1, 3]},
]

devices = st.fixed_dictionaries(
    {
        "kind": st.sampled_from("ab"),
        "shared": st.sampled_from([True, True, False]),
        "amount": st.sampled_from([None, 0, 4, 5, 6]),
        "policy": st.sampled_from(POLICIES),
        "consumes": st.sampled_from([0, 0, 0, 2]),
    }
)
subrequests = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["", "", "a"]),
        "count": st.sampled_from([1, 1, 1, 2, 0]),
        "asked": st.sampled_from([None, 0, 1, 2, 3, 5]),
        "admin": st.sampled_from([False, False, False, True]),
    }
)
"""A count of 0 stands for all."""
requests = st.one_of(subrequests.map(lambda subrequest: [subrequest]), st.lists(subrequests, min_size=2, max_size=2))
claims = st.fixed_dictionaries(
    {
        "requests": st.lists(requests, min_size=1, max_size=3),
        "constraint": st.sampled_from(["", "", "match", "distinct"]),
    }
)
steps = st.one_of(
    st.tuples(st.just("ask"), st.lists(claims, min_size=1, max_size=2)),
    st.tuples(st.just("free"), st.integers(0, 3)),
    st.tuples(st.just("patch"), st.sampled_from([None, 0, 2, 3, 8])),
    st.tuples(st.just("restart"), st.none()),
)


def device_json(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "attributes": {"kind": {"string": entry["kind"]}}}
    if entry["shared"]:
        made["allowMultipleAllocations"] = True
    if entry["amount"] is not None:
        made["capacity"] = {"m": {"value": str(entry["amount"]), **policy_json(entry)}}
    if entry["consumes"]:
        made["consumesCounters"] = [{"counterSet": "set", "counters": {"slots": {"value": str(entry["consumes"])}}}]
    return made


def policy_json(entry: dict[str, Any]) -> dict[str, Any]:
    policy = entry["policy"]
    if not policy or not entry["shared"]:
        return {}
    made: dict[str, Any] = {"default": str(policy["default"])}
    if "range" in policy:
        made["validRange"] = dict(zip(("min", "max", "step"), map(str, policy["range"]), strict=True))
    if "values" in policy:
        made["validValues"] = list(map(str, policy["values"]))
    return {"requestPolicy": made}


def slices_json(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    common = {"driver": DRIVER, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2}, "nodeName": "n1"}
    made = [device_json(f"{at}", entry) for at, entry in enumerate(entries)]
    sets = [{"name": "set", "counters": {"slots": {"value": str(SLOTS)}}}]
    yield {"metadata": {"name": "p-1"}, "spec": {**common, "sharedCounters": sets}}
    yield {"metadata": {"name": "p-2"}, "spec": {**common, "devices": made}}


def claim_json(name: str, claim: dict[str, Any]) -> dict[str, Any]:
    constraints = [{f"{claim['constraint']}Attribute": f"{DRIVER}/kind"}] if claim["constraint"] else []
    return claim_object(name, request_objects(claim["requests"], subrequest_json), constraints=constraints)


def subrequest_json(subrequest: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "deviceClassName": "any",
        "selectors": [{"cel": {"expression": subrequest["kind"]}}] if subrequest["kind"] else [],
        "adminAccess": subrequest["admin"],
        **({"count": subrequest["count"]} if subrequest["count"] else {"allocationMode": "All"}),
        **({"capacity": {"requests": {"m": str(subrequest["asked"])}}} if subrequest["asked"] is not None else {}),
    }


Chosen = tuple[dict[str, Any], tuple[int, ...]]
"""A subrequest and its devices."""


@dataclass
class Brute:
    """Everything by trying, nothing by thinking."""

    devices: list[dict[str, Any]]
    patched: int | None = None
    whole: Counter[int] = field(default_factory=Counter)
    consumed: Counter[int] = field(default_factory=Counter)
    sharers: Counter[int] = field(default_factory=Counter)

    def total(self, device: int) -> int | None:
        """Every device has the capacity that a patch sets."""
        amount: int | None = self.devices[device]["amount"]
        return amount if self.patched is None else self.patched

    def share(self, subrequest: dict[str, Any], device: int) -> int | None:
        """What a request consumes of a free device: nothing of one without capacity; None if it does not fit."""
        total, asked = self.total(device), subrequest["asked"]
        if total is None:
            return 0 if asked is None else None
        entry = self.devices[device]
        published = entry["shared"] and entry["amount"] is not None
        policy = entry["policy"] if published else {}
        amount = amount_of(asked, policy, total)
        return amount if amount is not None and amount <= total else None

    def room(self, subrequest: dict[str, Any], device: int) -> bool:
        share = self.share(subrequest, device)
        if share is None or subrequest["admin"] or not self.devices[device]["shared"]:
            return share is not None
        return self.fits(device, self.consumed[device] + share)

    def fits(self, device: int, consumed: int) -> bool:
        total = self.total(device)
        return total is None or consumed <= total

    def solve(self, asked: list[dict[str, Any]]) -> list[list[int]] | None:
        flat = [(at, alternatives) for at, claim in enumerate(asked) for alternatives in claim["requests"]]
        for chosen in itertools.product(*(list(self.options(alternatives)) for _, alternatives in flat)):
            by_claim: list[list[Chosen]] = [[] for _ in asked]
            for (at, _), each in zip(flat, chosen, strict=True):
                by_claim[at].append(each)
            if self.sound(asked, by_claim):
                return [[device for _, found in each for device in found] for each in by_claim]
        return None

    def options(self, alternatives: list[dict[str, Any]]) -> Iterator[Chosen]:
        for subrequest in alternatives:
            fitting = [at for at, entry in enumerate(self.devices) if subrequest["kind"] in ("", entry["kind"])]
            fitting = [at for at in fitting if self.room(subrequest, at)]
            if subrequest["count"]:
                yield from ((subrequest, found) for found in itertools.combinations(fitting, subrequest["count"]))
            elif fitting:
                yield subrequest, tuple(fitting)

    def sound(self, asked: list[dict[str, Any]], by_claim: list[list[Chosen]]) -> bool:
        ordinary = [
            (subrequest, at)
            for each in by_claim
            for subrequest, found in each
            if not subrequest["admin"]
            for at in found
        ]
        wholes = Counter(at for _, at in ordinary if not self.devices[at]["shared"])
        if any(count > 1 or self.whole[at] or self.sharers[at] for at, count in wholes.items()):
            return False
        more: Counter[int] = Counter()
        for subrequest, at in ordinary:
            if self.devices[at]["shared"]:
                more[at] += self.share(subrequest, at) or 0
        if any(self.whole[at] or not self.fits(at, self.consumed[at] + amount) for at, amount in more.items()):
            return False
        if not self.counted({at for _, at in ordinary}):
            return False
        return all(self.claim_sound(claim, each) for claim, each in zip(asked, by_claim, strict=True))

    def counted(self, taken: set[int]) -> bool:
        before = {at for at in range(len(self.devices)) if self.whole[at] or self.sharers[at]}
        anew = [at for at in taken - before if self.devices[at]["consumes"]]
        return not anew or sum(self.devices[at]["consumes"] for at in before | taken) <= SLOTS

    def claim_sound(self, claim: dict[str, Any], chosen: list[Chosen]) -> bool:
        found = [at for _, each in chosen for at in each]
        wholes = [at for at in found if not self.devices[at]["shared"]]
        if len(set(wholes)) < len(wholes):
            return False
        kinds = [self.devices[at]["kind"] for at in found]
        if not claim["constraint"] or not kinds:
            return True
        return len(set(kinds)) == (1 if claim["constraint"] == "match" else len(kinds))


def amount_of(asked: int | None, policy: dict[str, Any], total: int) -> int | None:
    if asked is None:
        return int(policy.get("default", total))
    if "range" in policy:
        low, high, step = policy["range"]
        found = next(amount for amount in itertools.count(low, step) if amount >= asked)
        return found if found <= high or found == policy["default"] else None
    if "values" in policy:
        return next((value for value in policy["values"] if value >= asked), None)
    return asked


class World:
    """A brute force, and the product's search over patched slices and the ledger."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.brute, self.catalog, self.tracker = Brute(entries), Catalog(), Tracker()
        self.ledger = DeviceLedger(self.catalog.capacities)
        self.claims: dict[str, list[dict[str, Any]]] = {}
        """Results of the claims in the API."""
        self.numbers = itertools.count()
        for each in slices_json(entries):
            self.tracker.put_slice(slice_of(each))
        self.settle()

    def settle(self) -> None:
        while not self.tracker.is_settled:
            for change in self.tracker.settle():
                self.catalog.change(*change)

    def patch(self, amount: int | None) -> None:
        self.brute.patched = amount
        if amount is None:
            self.tracker.drop_patch("x")
        else:
            spec = {"devices": {"capacity": {f"{DRIVER}/m": {"value": str(amount)}}}}
            metadata = {"name": "x", "uid": "x", "generation": next(self.numbers) + 1}
            self.tracker.put_patch(patch_of({"metadata": metadata, "spec": spec}))
        self.settle()

    def restart(self) -> None:
        self.ledger = DeviceLedger(self.catalog.capacities)
        for name, results in self.claims.items():
            self.ledger.observe(name, held_by_results(results), ordered=False)

    def ask(self, asked: list[dict[str, Any]], patience: int) -> None:
        expected = self.brute.solve(asked)
        names = [f"c{next(self.numbers)}" for _ in asked]
        read = tuple(claim_of(claim_json(name, claim)) for name, claim in zip(names, asked, strict=True))
        inputs = AllocatorInputs(self.catalog.view(NODE).pools, self.ledger, CLASSES, Kinds())
        attempt = Attempt(AttemptOptions(read, inputs, patience=patience))
        try:
            fits = attempt.run()
        except AllocationFault:
            assert any(
                subrequest["count"] == 0 for claim in asked for request in claim["requests"] for subrequest in request
            )
            return
        found = [[int(pick.device.id.device) for pick in picks] for picks in attempt.picks] if fits else None
        assert found == expected
        for claim, picks in zip(read, attempt.picks if fits else [], strict=False):
            assert self.ledger.reserve(claim.uid, held_by_picks(picks))
            results = allocation(claim, picks, CLASSES, "n1")["devices"]["results"]
            self.claims[claim.uid] = results
            self.ledger.observe(claim.uid, held_by_results(results))
            self.ledger.release(claim.uid)
            assert self.ledger.conflicting_claims(claim.uid) == set()
        self.recount()

    def free(self, at: int) -> None:
        name = sorted(self.claims)[at % len(self.claims)]
        del self.claims[name]
        self.ledger.observe(name, {})
        self.recount()

    def recount(self) -> None:
        """Read what claims hold from their results, and compare it with the ledger."""
        brute = self.brute
        brute.whole, brute.consumed, brute.sharers = Counter(), Counter(), Counter()
        for each in (result for results in self.claims.values() for result in results):
            at = int(each["device"])
            if not each.get("adminAccess"):
                brute.whole[at] += "shareID" not in each
                brute.sharers[at] += "shareID" in each
                brute.consumed[at] += sum(map(int, (each.get("consumedCapacity") or {}).values()))
        for at in range(len(brute.devices)):
            known = self.ledger.consumed(DeviceId(DRIVER, "p", str(at)))
            if brute.whole[at]:
                assert known is None
            else:
                assert (known or {}).get(f"{DRIVER}/m", 0) == brute.consumed[at] * NANO
                assert (DeviceId(DRIVER, "p", str(at)) in self.ledger) == bool(brute.sharers[at])


@given(
    st.lists(devices, min_size=1, max_size=4),
    st.lists(steps, max_size=10),
    st.sampled_from([0, PATIENCE]),
)
def test_shares_over_random_histories_equal_trying_everything(
    entries: list[dict[str, Any]], history: list[Any], patience: int
) -> None:
    """With patience 0 dead ends are kept from the first step on."""
    world = World(entries)
    for step, argument in history:
        if step == "ask":
            world.ask(argument, patience)
        elif step == "free" and world.claims:
            world.free(argument)
        elif step == "patch":
            world.patch(argument)
        elif step == "restart":
            world.restart()
            world.recount()
