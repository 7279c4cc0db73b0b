"""Devices that allow multiple allocations: amounts, shares, and what upstream's allocator answers in each case."""

import re
from typing import Any

import pytest

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.result import allocation
from protocols.dra.allocator.shares import HeldDevices, held_by_picks, held_by_results
from protocols.dra.allocator.types import AllocationFault, Node
from protocols.dra.decode import slice_of
from protocols.dra.types import DeviceId
from protocols.kube.quantity import NANO
from tests.support.allocator_objects import ANY, DRIVER, Kinds, claim

CLASSES = {"any": ANY}
NODE = Node("n1", {})
RANGE = {"default": "2", "validRange": {"min": "2", "max": "4", "step": "2"}}
VALUES = {"default": "1", "validValues": ["1", "2", "5"]}


def held(shares: dict[str, dict[str, int]], whole: tuple[str, ...]) -> HeldDevices:
    amounts = {name: {f"{DRIVER}/{key}": n * NANO for key, n in each.items()} for name, each in shares.items()}
    return HeldDevices(
        [{DeviceId(DRIVER, "n1", name): each for name, each in {**amounts, **dict.fromkeys(whole)}.items()}]
    )


def device(name: str, *, shared: bool = True, policy: Any = None, consumes: int = 0, **capacity: str) -> dict[str, Any]:
    amounts = {
        key: {"value": value, **({"requestPolicy": policy} if policy else {})} for key, value in capacity.items()
    }
    uses = [{"counterSet": "set", "counters": {"slots": {"value": str(consumes)}}}]
    return {
        "name": name,
        "attributes": {"kind": {"string": name[0]}},
        "capacity": amounts,
        **({"allowMultipleAllocations": True} if shared else {}),
        **({"consumesCounters": uses} if consumes else {}),
    }


def exactly(count: int = 1, /, **capacity: str) -> dict[str, Any]:
    """`count` 0 stands for all."""
    mode = {"count": count} if count else {"allocationMode": "All"}
    return {"deviceClassName": "any", **mode, **({"capacity": {"requests": capacity}} if capacity else {})}


class World:
    def __init__(
        self, *devices: dict[str, Any], shares: dict[str, Any] | None = None, whole: tuple[str, ...] = ()
    ) -> None:
        self.catalog = Catalog()
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
        common = {"driver": DRIVER, "pool": pool, "nodeName": "n1"}
        counters = [{"name": "set", "counters": {"slots": {"value": "8"}}}]
        self.catalog.put(slice_of({"metadata": {"name": "a"}, "spec": {**common, "devices": list(devices)}}))
        self.catalog.put(slice_of({"metadata": {"name": "b"}, "spec": {**common, "sharedCounters": counters}}))
        self.used = held(shares or {}, whole)

    def attempt(self, *claims: Any) -> Attempt:
        inputs = AllocatorInputs(self.catalog.view(NODE).pools, self.used, CLASSES, Kinds())
        return Attempt(AttemptOptions(claims, inputs))

    def results(self, *claims: Any) -> list[list[dict[str, Any]]] | None:
        attempt = self.attempt(*claims)
        if not attempt.run():
            return None
        made = [allocation(each, picks, CLASSES, "n1") for each, picks in zip(claims, attempt.picks, strict=True)]
        return [each["devices"]["results"] for each in made]

    def names(self, *claims: Any) -> list[list[str]] | None:
        """Devices by claim, each with what is consumed of its capacity `m`."""
        found = self.results(*claims)
        return (
            None
            if found is None
            else [
                [f"{result['device']}:{(result.get('consumedCapacity') or {}).get('m', '-')}" for result in results]
                for results in found
            ]
        )


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        (None, None, "10"),
        (None, "3", "3"),
        (None, "10", "10"),
        (None, "11", None),
        ({"default": "4"}, None, "4"),
        ({"default": "4"}, "3", "3"),
        (RANGE, None, "2"),
        (RANGE, "1", "2"),
        (RANGE, "3", "4"),
        (RANGE, "4", "4"),
        (RANGE, "5", None),
        (VALUES, None, "1"),
        (VALUES, "2", "2"),
        (VALUES, "3", "5"),
        (VALUES, "6", None),
        ({"default": "0", "validValues": ["0"]}, None, "0"),
        ({"default": "0", "validValues": ["0"]}, "1", None),
        ({"default": "1", "validRange": {"min": "1"}}, "3500m", "3500m"),
        ({"default": "500m", "validRange": {"min": "500m", "step": "250m"}}, "600m", "1"),
        ({"default": "1Ki", "validRange": {"min": "0", "step": "1Ki"}}, "3", None),
    ],
)
def test_amount_of_a_share_follows_the_request_policy(policy: Any, asked: str | None, consumed: str | None) -> None:
    world = World(device("a", policy=policy, m="10"))
    found = world.names(claim(exactly(**({"m": asked} if asked else {}))))
    assert found == (None if consumed is None else [[f"a:{consumed}"]])


def test_result_of_a_share_has_a_fresh_lower_case_uuid_and_every_capacity_as_the_driver_spells_it() -> None:
    amounts: dict[str, Any] = {"m": "4Gi", f"{DRIVER}/n": "8", "other.com/o": "1"}
    world = World(device("a", **amounts))
    found = world.results(claim(exactly(m="1Gi", n="2"), name="1"), claim(exactly(**{f"{DRIVER}/m": "1Gi"}), name="2"))
    assert found is None, "all of other.com/o is taken by the first"
    asked = claim(
        exactly(m="1Gi", **{"other.com/o": "0"}), exactly(**{f"{DRIVER}/m": "512Mi", "n": "1", "other.com/o": "1"})
    )
    results = World(device("a", **amounts | {f"{DRIVER}/n": "9"})).results(asked)
    assert results is None, "a request takes all that it does not name"
    asked = claim(
        exactly(n="3", **{"other.com/o": "0"}, m="1Gi"),
        exactly(**{f"{DRIVER}/m": "512Mi", "n": "6", "other.com/o": "1"}),
    )
    ((one, two),) = World(device("a", **amounts | {f"{DRIVER}/n": "9"})).results(asked) or []
    assert one["consumedCapacity"] == {"m": "1Gi", f"{DRIVER}/n": "3", "other.com/o": "0"}
    assert two["consumedCapacity"] == {"m": "512Mi", f"{DRIVER}/n": "6", "other.com/o": "1"}
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one["shareID"])
    assert one["shareID"] != two["shareID"]


@pytest.mark.parametrize(
    ("world", "asked", "found"),
    [
        pytest.param(World(device("a", n="1")), [claim(exactly(m="1"))], None, id="capacity-not-published"),
        pytest.param(World(device("a", n="1")), [claim(exactly(0, m="1"))], None, id="all-capacity-not-published"),
        pytest.param(
            World(device("a")), [claim(exactly()), claim(exactly())], [["a:-"], ["a:-"]], id="no-capacity-no-limit"
        ),
        pytest.param(
            World(device("a", m="1"), device("b", m="1")),
            [claim(exactly()), claim(exactly())],
            [["a:1"], ["b:1"]],
            id="no-request-takes-all-there-is",
        ),
        pytest.param(World(device("a", m="2")), [claim(exactly()), claim(exactly())], None, id="all-of-it-only-once"),
        pytest.param(
            World(device("a", m="2")),
            [claim(exactly(m="1")), claim(exactly(m="1"))],
            [["a:1"], ["a:1"]],
            id="two-claims",
        ),
        pytest.param(
            World(device("a", m="2")), [claim(exactly(m="1"), exactly(m="1"))], [["a:1", "a:1"]], id="two-requests"
        ),
        pytest.param(World(device("a", m="2")), [claim(exactly(2, m="1"))], None, id="count-means-different-devices"),
        pytest.param(
            World(device("a", m="2", policy=RANGE)), [claim(exactly(m="1")), claim(exactly(m="2"))], None, id="exceeded"
        ),
        pytest.param(
            World(device("a", m="4", policy=RANGE), shares={"a": {"m": 2}}),
            [claim(exactly(m="2"))],
            [["a:2"]],
            id="rest-of-what-is-consumed",
        ),
        pytest.param(
            World(device("a", m="2"), device("b", m="2"), shares={"a": {"m": 2}}),
            [claim(exactly(m="2"))],
            [["b:2"]],
            id="next-device",
        ),
        pytest.param(
            World(device("a", m="2"), shares={"a": {"m": 8}}), [claim(exactly(m="0"))], None, id="lowered-below"
        ),
        pytest.param(
            World(device("a", m="2"), device("b", m="4")),
            [
                claim(exactly(m="2"), exactly(m="2"), constraints=[{"matchAttribute": f"{DRIVER}/kind"}]),
                claim(exactly(m="2")),
            ],
            [["b:2", "b:2"], ["a:2"]],
            id="backtracking",
        ),
        pytest.param(
            World(device("a", m="4"), device("b", m="4")),
            [claim(exactly(m="1"), exactly(m="1"), constraints=[{"distinctAttribute": f"{DRIVER}/kind"}])],
            [["a:1", "b:1"]],
            id="distinct",
        ),
        pytest.param(
            World(device("a", m="4")),
            [claim(exactly(m="1"), exactly(m="1"), constraints=[{"distinctAttribute": f"{DRIVER}/kind"}])],
            None,
            id="distinct-impossible",
        ),
        pytest.param(
            World(device("a", m="2", policy={"default": "2", "validRange": {"min": "2", "max": "2"}})),
            [
                claim(
                    {
                        "name": "r",
                        "firstAvailable": [{"name": "s0", **exactly(m="4")}, {"name": "s1", **exactly(m="1")}],
                    }
                )
            ],
            [["a:2"]],
            id="second-alternative",
        ),
        pytest.param(
            World(device("a", m="2"), device("b")), [claim(exactly(0, m="2"))], [["a:2"]], id="all-with-that-capacity"
        ),
        pytest.param(
            World(device("a", m="2"), device("b", m="1")), [claim(exactly(0, m="2"))], [["a:2"]], id="all-with-enough"
        ),
        pytest.param(
            World(device("a", m="2"), device("b", m="1")),
            [claim(exactly(m="1"), exactly(0, m="1"))],
            [["a:1", "a:1", "b:1"]],
            id="all-beside-another-share",
        ),
        pytest.param(
            World(device("a", m="1"), device("b", m="1")),
            [claim(exactly(m="1"), exactly(0, m="1"))],
            None,
            id="all-not-left",
        ),
        pytest.param(
            World(device("a", m="1"), device("b", m="1"), shares={"a": {"m": 1}}),
            [claim(exactly(0, m="1"))],
            [["b:1"]],
            id="all-that-have-room",
        ),
        pytest.param(World(device("a", m="1", shared=False)), [claim(exactly(m="1"))], [["a:-"]], id="whole-device"),
        pytest.param(
            World(device("a", m="1", shared=False)), [claim(exactly(m="2"))], None, id="whole-device-too-small"
        ),
        pytest.param(
            World(device("a", m="2", shared=False)),
            [claim(exactly(m="1")), claim(exactly(m="1"))],
            None,
            id="whole-only-once",
        ),
        pytest.param(
            World(device("a", m="2"), whole=("a",)), [claim(exactly(m="1"))], None, id="held-as-a-whole-before"
        ),
        pytest.param(
            World(device("a", m="2", shared=False), shares={"a": {"m": 1}}),
            [claim(exactly())],
            None,
            id="no-longer-shared",
        ),
        pytest.param(
            World(device("a", m="9", consumes=6), device("b", m="9", consumes=4)),
            [claim(exactly(m="5")), claim(exactly(m="4")), claim(exactly(m="1"))],
            None,
            id="counters-leave-one-device",
        ),
        pytest.param(
            World(device("a", m="9", consumes=6), device("b", m="9", consumes=4)),
            [claim(exactly(m="5")), claim(exactly(m="4"))],
            [["a:5"], ["a:4"]],
            id="shares-consume-counters-once",
        ),
        pytest.param(
            World(device("a", m="9", consumes=6), device("b", m="9", consumes=4), shares={"a": {"m": 4}}),
            [claim(exactly(m="5")), claim(exactly(m="1"))],
            None,
            id="counters-of-earlier-shares",
        ),
        pytest.param(
            World(device("a", m="1", consumes=4), device("b", m="9", consumes=6), device("c", m="9", consumes=4)),
            [
                claim(
                    exactly(m="1"),
                    {"name": "r1", "exactly": {**exactly(m="1"), "selectors": [{"cel": {"expression": "c"}}]}},
                )
            ],
            [["a:1", "c:1"]],
            id="partitions",
        ),
        pytest.param(
            World(device("a", m="2", consumes=4), device("b", m="4", consumes=8), device("c", m="2", consumes=4)),
            [
                claim(
                    exactly(m="1"),
                    exactly(m="2"),
                    {
                        "name": "r2",
                        "firstAvailable": [
                            {"name": "s0", **exactly(m="1"), "selectors": [{"cel": {"expression": "b"}}]},
                            {"name": "s1", **exactly(m="1")},
                        ],
                    },
                )
            ],
            [["a:1", "c:2", "a:1"]],
            id="partitions-and-alternatives",
        ),
    ],
)
def test_shares_of_devices_are_found(world: World, asked: list[Any], found: Any) -> None:
    assert world.names(*asked) == found


def test_admin_access_has_a_share_and_consumes_nothing() -> None:
    admin = {**exactly(m="2"), "adminAccess": True}
    world = World(device("a", m="2"), shares={"a": {"m": 2}})
    ((first, second),) = world.results(claim(admin, admin)) or []
    assert (first["adminAccess"], first["device"]) == (True, "a")
    assert "consumedCapacity" not in first
    assert first["shareID"] != second["shareID"]
    assert World(device("a", m="1")).names(claim(admin)) is None, "asks for more than there is"
    assert World(device("a", m="2")).names(claim(admin), claim(exactly(m="2"))) == [["a:-"], ["a:2"]]


@pytest.mark.parametrize(
    ("capacity", "text"),
    [
        ({"m": "-1"}, 'capacity "d.example.com/m": capacity value is negative'),
        ({"m": "1", f"{DRIVER}/m": "1"}, f'capacity "{DRIVER}/m" requested both as "{DRIVER}/m" and as "m"'),
    ],
)
def test_requests_wrong_on_any_device_end_the_attempt(capacity: dict[str, str], text: str) -> None:
    with pytest.raises(AllocationFault, match=re.escape(text)):
        World(device("a", m="2")).names(claim(exactly(**capacity)))


def test_picks_hold_what_their_results_say() -> None:
    world = World(device("a", m="4", n="1"), device("w", shared=False))
    admin = {**exactly(), "adminAccess": True}
    asked = claim(
        exactly(m="1", n="0"), exactly(m="2", n="1"), admin, {**exactly(), "selectors": [{"cel": {"expression": "w"}}]}
    )
    attempt = world.attempt(asked)
    assert attempt.run()
    taken = held_by_picks(attempt.picks[0])
    assert taken == {
        DeviceId(DRIVER, "n1", "a"): {f"{DRIVER}/m": 3 * NANO, f"{DRIVER}/n": NANO},
        DeviceId(DRIVER, "n1", "w"): None,
    }
    assert held_by_results(allocation(asked, attempt.picks[0], CLASSES, "n1")["devices"]["results"]) == taken


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([exactly(m="1")] * 31, id="equal"),
        pytest.param([exactly(m=str(1 + at % 5)) for at in range(31)], id="of-several-sizes"),
    ],
)
@pytest.mark.parametrize("growth", [0, 1])
def test_search_of_impossible_shares_ends_after_few_steps(asked: list[Any], growth: int) -> None:
    world = World(*(device(f"a{at:02}", m=str(10 + growth * at)) for at in range(64)))
    impossible = {**exactly(m="1"), "selectors": [{"cel": {"expression": "none"}}]}
    attempt = world.attempt(claim(*asked, impossible))
    assert not attempt.run()
    assert attempt.steps < 1000
    assert world.attempt(claim(*asked)).run()


def test_packing_that_is_impossible_ends_after_few_steps() -> None:
    world = World(*(device(f"a{at}", m="10") for at in range(4)))
    for amounts in ([7, 6, 5, 5, 4, 4, 3, 3, 2, 2], [3] * 13):
        attempt = world.attempt(claim(*(exactly(m=str(amount)) for amount in amounts)))
        assert not attempt.run()
        assert attempt.steps < 2000
