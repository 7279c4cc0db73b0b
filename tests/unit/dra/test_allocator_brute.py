"""The search finds what trying everything in order finds, over random histories of slices, claims and releases."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import claim_of
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.pruning import PATIENCE
from protocols.dra.allocator.types import AllocationFault, Node
from protocols.dra.decode import slice_of
from protocols.dra.types import DeviceId
from tests.support.allocator_objects import ANY, DRIVER, Kinds, claim_object, request_objects

NODE = Node("n1", {})
CLASSES = {"any": ANY}
SLOTS = 3

devices = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from("ab"),
            "numa": st.sampled_from([None, 0, 1]),
            "taint": st.booleans(),
            "consumes": st.sampled_from([0, 0, 1, 2]),
        }
    ),
    max_size=5,
)
subrequests = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["", "a", "b"]),
        "count": st.sampled_from([1, 1, 2, 0]),
        "admin": st.booleans(),
        "tolerates": st.booleans(),
    }
)
"""A count of 0 stands for all."""
requests = st.one_of(subrequests.map(lambda subrequest: [subrequest]), st.lists(subrequests, min_size=2, max_size=2))
claims = st.fixed_dictionaries(
    {
        "requests": st.lists(requests, min_size=1, max_size=2),
        "constraint": st.sampled_from(["", "match", "distinct"]),
        "of": st.sampled_from(["", "r0", "r1/s0"]),
    }
)
steps = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["p", "q"]), devices),
    st.tuples(st.just("withdraw"), st.sampled_from(["p", "q"]), st.none()),
    st.tuples(st.just("ask"), st.lists(claims, min_size=1, max_size=2), st.none()),
    st.tuples(st.just("free"), st.integers(0, 3), st.none()),
)


def slice_json(pool: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    announced = {"name": pool, "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": "set", "counters": {"slots": {"value": str(SLOTS)}}}]
    common = {"driver": DRIVER, "pool": announced, "nodeName": "n1"}
    made = [device_json(f"{pool}{at}", entry) for at, entry in enumerate(entries)]
    return [
        {"metadata": {"name": f"{pool}-1"}, "spec": {**common, "sharedCounters": sets}},
        {"metadata": {"name": f"{pool}-2"}, "spec": {**common, "devices": made}},
    ]


def device_json(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    attributes = {"kind": {"string": entry["kind"]}}
    if entry["numa"] is not None:
        attributes["numa"] = {"int": entry["numa"]}
    made: dict[str, Any] = {"name": name, "attributes": attributes}
    if entry["taint"]:
        made["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    if entry["consumes"]:
        made["consumesCounters"] = [{"counterSet": "set", "counters": {"slots": {"value": str(entry["consumes"])}}}]
    return made


def claim_json(name: str, claim: dict[str, Any]) -> dict[str, Any]:
    constraint = {f"{claim['constraint']}Attribute": f"{DRIVER}/numa", "requests": [claim["of"]] if claim["of"] else []}
    constraints = [constraint] if claim["constraint"] else []
    return claim_object(name, request_objects(claim["requests"], subrequest_json), constraints=constraints)


def subrequest_json(subrequest: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "deviceClassName": "any",
        "selectors": [{"cel": {"expression": subrequest["kind"]}}] if subrequest["kind"] else [],
        "tolerations": [{"operator": "Exists"}] if subrequest["tolerates"] else [],
        "adminAccess": subrequest["admin"],
        **({"count": subrequest["count"]} if subrequest["count"] else {"allocationMode": "All"}),
    }


Chosen = tuple[str, dict[str, Any], tuple[str, ...]]
"""Name of the chosen subrequest, the subrequest, its devices."""


@dataclass
class Brute:
    """Everything by trying, nothing by thinking."""

    pools: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def device(self, name: str) -> dict[str, Any]:
        return self.pools[name[0]][int(name[1:])]

    def names(self) -> list[str]:
        return [f"{pool}{at}" for pool in sorted(self.pools) for at in range(len(self.pools[pool]))]

    def solve(self, asked: list[dict[str, Any]]) -> list[list[str]] | None:
        flat = [(at, request) for at, claim in enumerate(asked) for request in range(len(claim["requests"]))]
        for chosen in itertools.product(
            *(self.options(asked[at]["requests"][request], request) for at, request in flat)
        ):
            by_claim: list[list[Chosen]] = [[] for _ in asked]
            for (at, _), each in zip(flat, chosen, strict=True):
                by_claim[at].append(each)
            if self.sound(asked, by_claim):
                return [[name for _, _, names in each for name in names] for each in by_claim]
        return None

    def options(self, alternatives: list[dict[str, Any]], request: int) -> Iterator[Chosen]:
        for sub, subrequest in enumerate(alternatives):
            request_name = f"r{request}/s{sub}" if len(alternatives) > 1 else f"r{request}"
            fitting = [name for name in self.names() if subrequest["kind"] in ("", self.device(name)["kind"])]
            if subrequest["count"]:
                for names in itertools.combinations(fitting, subrequest["count"]):
                    yield request_name, subrequest, names
            elif fitting:
                yield request_name, subrequest, tuple(fitting)

    def sound(self, asked: list[dict[str, Any]], by_claim: list[list[Chosen]]) -> bool:
        ordinary = [
            name for each in by_claim for _, subrequest, names in each if not subrequest["admin"] for name in names
        ]
        if len(set(ordinary)) < len(ordinary) or self.used & set(ordinary):
            return False
        taken: Counter[str] = Counter()
        for name in self.used | set(ordinary):
            taken[name[0]] += self.device(name)["consumes"]
        if ordinary and any(taken[name[0]] > SLOTS and self.device(name)["consumes"] for name in ordinary):
            return False
        return all(self.claim_sound(claim, each) for claim, each in zip(asked, by_claim, strict=True))

    def claim_sound(self, claim: dict[str, Any], chosen: list[Chosen]) -> bool:
        names = [name for _, _, each in chosen for name in each]
        if len(set(names)) < len(names):
            return False
        for _, subrequest, each in chosen:
            if not subrequest["tolerates"] and any(self.device(name)["taint"] for name in each):
                return False
        bound = [
            self.device(name)["numa"]
            for request_name, _, each in chosen
            if claim["of"] in ("", request_name, request_name.partition("/")[0])
            for name in each
        ]
        if not claim["constraint"] or not bound:
            return True
        return None not in bound and len(set(bound)) == (1 if claim["constraint"] == "match" else len(bound))


class Used:
    def __init__(self, brute: Brute) -> None:
        self._brute = brute

    def __contains__(self, device: object) -> bool:
        return isinstance(device, tuple) and device[2] in self._brute.used

    def consumed(self, device: DeviceId) -> None:
        """All are allocated as a whole."""


@given(st.lists(steps, max_size=12), st.sampled_from([0, PATIENCE]))
def test_search_over_random_histories_equals_trying_everything(history: list[Any], patience: int) -> None:
    """With patience 0 dead ends are kept from the first step on."""
    catalog, brute, held = Catalog(), Brute(), list[Any]()
    for step, one, two in history:
        if step == "publish" and not brute.used:
            brute.pools[one] = two
            for made in slice_json(one, two):
                catalog.put(slice_of(made))
        elif step == "withdraw" and not brute.used:
            brute.pools.pop(one, None)
            catalog.remove(f"{one}-1")
            catalog.remove(f"{one}-2")
        elif step == "free" and held:
            brute.used -= held.pop(one % len(held))
        elif step == "ask":
            expected = brute.solve(one)
            asked = tuple(claim_of(claim_json(f"c{at}", claim)) for at, claim in enumerate(one))
            inputs = AllocatorInputs(catalog.view(NODE).pools, Used(brute), CLASSES, Kinds())
            attempt = Attempt(AttemptOptions(asked, inputs, patience=patience))
            try:
                found = [[pick.device.id.device for pick in each] for each in attempt.picks] if attempt.run() else None
            except AllocationFault:
                assert any(
                    subrequest["count"] == 0 for claim in one for request in claim["requests"] for subrequest in request
                )
                continue
            assert found == expected
            if found is not None:
                held.append({pick.device.id.device for each in attempt.picks for pick in each if not pick.admin})
                brute.used |= held[-1]
