"""What upstream's allocator is tested for, case by case: each behaviour of its table has a case here or in the other
files of the allocator (`test_allocator_shares.py` has consumable capacity)."""

from typing import Any

import pytest

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.result import allocation
from protocols.dra.allocator.shares import HeldDevices
from protocols.dra.allocator.types import AllocationFault, Node, NodeFault
from protocols.dra.decode import class_of, slice_of
from protocols.dra.types import Device, DeviceId
from protocols.kube.meta import Object
from tests.support.allocator_objects import claim

NODE = Node("n1", {"region": "west", "planet": "earth"})
CLASSES = {
    driver: class_of({"metadata": {"name": driver}, "spec": {"selectors": [{"cel": {"expression": driver}}]}})
    for driver in ("a.com", "b.com")
}


class Words:
    """Selectors of tests: the name of a driver, or `ATTRIBUTE=VALUE`."""

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        name, _, value = expression.partition("=")
        found = device.attributes.get(f"{driver}/{name}")
        return driver == name if not value else found is not None and str(found.value) == value


def device(name: str, consumes: dict[str, int] | None = None, *, shared: bool = False, **attributes: Any) -> Object:
    kinds = {str: "string", int: "int", bool: "bool"}
    uses = [
        {"counterSet": name, "counters": {"slots": {"value": str(amount)}}} for name, amount in (consumes or {}).items()
    ]
    return {
        "name": name,
        "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()},
        **({"consumesCounters": uses} if uses else {}),
        **({"allowMultipleAllocations": True} if shared else {}),
    }


def slice_(
    *devices: Object, pool: str = "p", of: int = 1, driver: str = "a.com", generation: int = 1, **spec: Any
) -> Any:
    announced = {"name": pool, "generation": generation, "resourceSliceCount": of}
    where = {} if set(spec) & {"allNodes", "nodeSelector", "nodeName"} else {"nodeName": "n1"}
    return {"driver": driver, "pool": announced, **({"devices": list(devices)} if devices else {}), **where, **spec}


def sets(*names: str, slots: int = 4, **more: Any) -> Any:
    counters = [{"name": name, "counters": {"slots": {"value": str(slots)}}} for name in names]
    return slice_(sharedCounters=counters, **more)


def in_(key: str, value: str, part: str = "matchExpressions") -> Object:
    return {"nodeSelectorTerms": [{part: [{"key": key, "operator": "In", "values": [value]}]}]}


def exactly(driver: str = "a.com", count: int = 1, *words: str, admin: bool = False, all_: bool = False) -> Object:
    return {
        "deviceClassName": driver,
        "selectors": [{"cel": {"expression": word}} for word in words],
        **({"allocationMode": "All"} if all_ else {"count": count}),
        **({"adminAccess": True} if admin else {}),
    }


def either(*subrequests: Object) -> Object:
    return {"firstAvailable": [{"name": f"s{at}", **each} for at, each in enumerate(subrequests)]}


def match(attribute: str, *requests: str) -> Object:
    return {"matchAttribute": f"a.com/{attribute}", "requests": list(requests)}


def distinct(attribute: str, *requests: str) -> Object:
    return {"distinctAttribute": f"a.com/{attribute}", "requests": list(requests)}


def attempt(slices: list[Object], claims: list[Any], used: tuple[str, ...] = (), node: Node = NODE) -> Attempt:
    catalog = Catalog()
    for at, spec in enumerate(slices):
        catalog.put(slice_of({"metadata": {"name": f"slice-{at}"}, "spec": spec}))
    held = HeldDevices([{DeviceId("a.com", "p", name): None} for name in used])
    inputs = AllocatorInputs(catalog.view(node).pools, held, CLASSES, Words())
    return Attempt(AttemptOptions(tuple(claims), inputs))


def found(slices: list[Object], claims: list[Any], *used: str, node: Node = NODE) -> list[str] | None:
    """`request=device` by claim, with the pool and driver where they are not the usual ones."""
    search = attempt(slices, claims, used, node)
    if not search.run():
        return None
    return [" ".join(f"{pick.request}={shown(pick.device.id)}" for pick in picks) for picks in search.picks]


def shown(id: DeviceId) -> str:
    parts = [part for part, usual in ((id.driver, "a.com"), (id.pool, "p")) if part != usual]
    return "/".join([*parts, id.device])


TWO = [slice_(device("x"), device("y"))]
OTHER = slice_(device("z"), pool="q", driver="b.com")
CARDS = [
    slice_(
        device("x", size=8, version="1"), device("y", size=2, version="2"), device("z", size=1, version="1"),
    )
]  # fmt: skip
PARTS = [
    slice_(
        device("four", {"s": 4}, size=4), device("six", {"s": 6}, size=6), device("too", {"s": 4}, size=4), of=2,
    ),
    sets("s", slots=8, of=2),
]  # fmt: skip
SHARED = [slice_(device("x", shared=True, on=True), device("y", shared=True, on=False))]


@pytest.mark.parametrize(
    ("slices", "claims", "used", "expected"),
    [
        pytest.param([], [claim(exactly())], "", None, id="no-slices"),
        pytest.param(TWO, [], "", [], id="no-claims-to-allocate"),
        pytest.param(TWO[:1], [claim(exactly("a.com", 3))], "", None, id="not-enough-suitable-devices"),
        pytest.param(
            [*TWO, OTHER], [claim(exactly()), claim(exactly("b.com"))], "", ["r0=x", "r0=b.com/q/z"], id="two-drivers"
        ),
        pytest.param(
            [*TWO, slice_(device("x"), pool="q")],
            [claim(exactly(all_=True))],
            "",
            ["r0=x r0=y r0=q/x"],
            id="all-devices-of-all-pools",
        ),
        pytest.param(
            [*TWO, OTHER],
            [claim(exactly("b.com")), claim(exactly(all_=True))],
            "",
            ["r0=b.com/q/z", "r0=x r0=y"],
            id="all-devices-plus-another-reversed",
        ),
        pytest.param(TWO, [claim(exactly(all_=True)), claim(exactly())], "", None, id="all-devices-no-solution"),
        pytest.param(
            TWO, [claim(exactly()), claim(exactly(all_=True))], "", None, id="all-devices-no-solution-reversed"
        ),
        pytest.param([slice_()], [claim(exactly(all_=True))], "", None, id="all-devices-slice-without-devices"),
        pytest.param(
            [slice_(), OTHER],
            [claim(either(exactly(all_=True), exactly("b.com")))],
            "",
            ["r0/s1=b.com/q/z"],
            id="all-devices-slice-without-devices-prioritized-list",
        ),
        pytest.param(
            [*TWO, OTHER],
            [claim(either(exactly(all_=True), exactly("b.com")))],
            "x",
            ["r0/s1=b.com/q/z"],
            id="all-devices-some-allocated-prioritized-list",
        ),
        pytest.param(
            TWO,
            [claim(exactly(admin=True), exactly(all_=True, admin=True))],
            "",
            None,
            id="all-devices-some-allocating-admin-access",
        ),
        pytest.param(
            TWO,
            [claim(exactly("a.com", 2, admin=True))],
            "x",
            ["r0=x r0=y"],
            id="count-devices-some-allocated-admin-access",
        ),
        pytest.param(
            TWO,
            [claim(exactly(admin=True)), claim(exactly(admin=True))],
            "",
            ["r0=x", "r0=x"],
            id="separate-claims-admin-access",
        ),
        pytest.param(
            TWO,
            [claim(exactly()), claim(exactly(admin=True))],
            "",
            ["r0=x", "r0=x"],
            id="admin-access-beside-allocating",
        ),
        pytest.param(
            [slice_(device("x"), of=2), slice_(device("y"), of=2, nodeName="n2")],
            [claim(exactly(all_=True))],
            "",
            ["r0=x"],
            id="all-devices-of-a-multi-host-pool",
        ),
        pytest.param(
            [slice_(device("x"), of=2), slice_(device("y"), of=2, generation=2, nodeName="n2")],
            [claim(exactly())],
            "",
            None,
            id="multi-host-pool-with-stale-slice-for-the-node",
        ),
        pytest.param(
            [slice_(device("x"), nodeName="n2"), slice_(device("y"), generation=2)],
            [claim(exactly())],
            "",
            ["r0=y"],
            id="multi-host-pool-update-from-another-node",
        ),
        pytest.param(
            [slice_(device("x", v="1"), device("y", v="2"))],
            [claim(exactly(), exactly(), constraints=[match("v", "r0")])],
            "",
            ["r0=x r1=y"],
            id="with-constraint-for-request",
        ),
        pytest.param(
            [slice_(device("x", v="1", t="a"), device("y", v="2", t="b"), device("z", v="3", t="b"))],
            [claim(exactly(), exactly(), constraints=[match("v", "r0"), match("t")])],
            "",
            ["r0=y r1=z"],
            id="with-constraint-for-request-retry",
        ),
        pytest.param(
            TWO, [claim(exactly(), constraints=[match("none")])], "", None, id="with-constraint-no-such-attribute"
        ),
        pytest.param(
            [slice_(device("x", size=2), device("y", size=2), device("z", size=1))],
            [claim(exactly(), either(exactly("a.com", 1, "size=4"), exactly("a.com", 2, "size=2")))],
            "",
            ["r0=z r1/s1=x r1/s1=y"],
            id="prioritized-list-subrequests-with-expressions",
        ),
        pytest.param(
            CARDS,
            [
                claim(
                    exactly("a.com", 1, "size=8"),
                    either(exactly("a.com", 1, "size=2"), exactly("a.com", 1, "size=1")),
                    constraints=[match("version", "r0", "r1")],
                )
            ],
            "",
            ["r0=x r1/s1=z"],
            id="prioritized-list-constraints-ref-parent-request",
        ),
        pytest.param(
            CARDS,
            [
                claim(
                    exactly("a.com", 1, "size=8"),
                    either(exactly("a.com", 1, "size=2"), exactly("a.com", 1, "version=2")),
                    constraints=[match("version", "r0", "r1/s0")],
                )
            ],
            "",
            ["r0=x r1/s1=y"],
            id="prioritized-list-constraints-ref-sub-request",
        ),
        pytest.param(
            TWO,
            [claim(either(exactly(all_=True), exactly()))],
            "x",
            ["r0/s1=y"],
            id="prioritized-list-allocation-mode-all",
        ),
        pytest.param(
            TWO,
            [claim(exactly(), either(exactly(all_=True), exactly()))],
            "",
            ["r0=x r1/s1=y"],
            id="prioritized-list-allocation-mode-all-multiple-requests",
        ),
        pytest.param(
            CARDS,
            [
                claim(
                    either(exactly("a.com", 1, "size=8"), exactly("a.com", 1, "size=2")), exactly("a.com", 1, "size=8")
                )
            ],
            "",
            ["r0/s1=y r1=x"],
            id="prioritized-list-with-backtracking",
        ),
        pytest.param(
            [*TWO, OTHER],
            [claim(either(exactly("b.com", 500), exactly()))],
            "",
            ["r0/s1=x"],
            id="prioritized-list-too-many-in-first-subrequest",
        ),
        pytest.param(
            [*TWO, OTHER],
            [claim(either(exactly("b.com", 2), exactly("a.com", 3)))],
            "",
            None,
            id="prioritized-list-none",
        ),
        pytest.param(
            PARTS,
            [claim(exactly(), either(exactly("a.com", 1, "size=6"), exactly("a.com", 1, "size=4")))],
            "",
            ["r0=four r1/s1=too"],
            id="partitionable-devices-prioritized-list",
        ),
        pytest.param(
            PARTS, [claim(exactly()), claim(exactly())], "six", None, id="partitionable-devices-some-allocated"
        ),
        pytest.param(
            [
                slice_(device("x", {"s": 2, "t": 4}), device("y", {"s": 2, "t": 1}), device("z", {"s": 2}), of=2),
                sets("s", "t", of=2),
            ],
            [claim(exactly("a.com", 2))],
            "",
            ["r0=x r0=z"],
            id="partitionable-devices-several-counter-sets",
        ),
        pytest.param(
            [slice_(*(device(name, shared=True, on=at % 2 == 0, v=at // 3, n=at) for at, name in enumerate("wxyz")))],
            [
                claim(
                    exactly(),
                    exactly(),
                    exactly(),
                    exactly(),
                    constraints=[distinct("on", "r0", "r1"), distinct("n", "r0", "r1", "r2", "r3")],
                )
            ],
            "",
            ["r0=w r1=x r2=y r3=z"],
            id="with-distinct-constraints",
        ),
        pytest.param(
            TWO, [claim(exactly(), constraints=[distinct("none")])], "", None, id="with-distinct-attribute-not-set"
        ),
        pytest.param(
            SHARED,
            [
                claim(
                    *(either(exactly("a.com", 1, "on=True"), exactly()) for _ in range(3)),
                    constraints=[distinct("on", "r0", "r1")],
                )
            ],
            "",
            ["r0/s0=x r1/s1=y r2/s0=x"],
            id="with-distinct-constraints-with-subrequests",
        ),
    ],
)
def test_devices_are_found_as_upstream_finds_them(
    slices: list[Object], claims: list[Any], used: str, expected: list[str] | None
) -> None:
    assert found(slices, claims, *used.split()) == expected


REGION, PLANET = in_("region", "west"), in_("planet", "earth")


@pytest.mark.parametrize(
    ("slices", "count", "selector"),
    [
        pytest.param([slice_(device("x"), nodeSelector=REGION)], 1, REGION, id="network-attached-device"),
        pytest.param(
            [
                slice_(device("x"), nodeSelector=REGION),
                slice_(device("x"), pool="q", allNodes=True),
                slice_(device("x"), pool="r", nodeSelector=PLANET),
                slice_(device("x"), pool="s", nodeSelector=in_("metadata.name", "n1", "matchFields")),
            ],
            4,
            {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            *REGION["nodeSelectorTerms"][0]["matchExpressions"],
                            *PLANET["nodeSelectorTerms"][0]["matchExpressions"],
                        ],
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                    }
                ]
            },
            id="many-network-attached-devices",
        ),
        pytest.param(
            [slice_(device("x"), nodeSelector=REGION), slice_(device("x"), pool="q")],
            2,
            in_("metadata.name", "n1", "matchFields"),
            id="local-and-network-attached-devices",
        ),
    ],
)
def test_node_selector_is_that_of_all_devices(slices: list[Object], count: int, selector: Object) -> None:
    asked = claim(exactly("a.com", count))
    search = attempt(slices, [asked])
    assert search.run()
    assert allocation(asked, search.picks[0], CLASSES, "n1")["nodeSelector"] == selector
    assert found(slices, [asked], node=Node("n2", {"region": "east"})) is None


@pytest.mark.parametrize(
    ("slices", "asked"),
    [
        pytest.param([slice_(device("x"), of=3), sets("s", of=3), sets("s", of=3)], exactly(), id="counter-set-twice"),
        pytest.param([slice_(device("x", {"s": 1})), sets("s", pool="q")], exactly(), id="counter-set-in-another-pool"),
        pytest.param(
            [slice_(device("x"), of=2), slice_(device("y", {"s": 1}), of=2, nodeName="n2")],
            exactly(),
            id="fault-elsewhere",
        ),
    ],
)
def test_pools_that_are_invalid_give_nothing(slices: list[Object], asked: Object) -> None:
    with pytest.raises(NodeFault, match=r"^invalid resource pools were encountered$"):
        attempt(slices, [claim(asked)]).run()


@pytest.mark.parametrize("requests", [(exactly("a.com", 500),), (exactly("a.com", 32), exactly())])
def test_more_devices_than_a_claim_may_have_are_an_error(requests: tuple[Object, ...]) -> None:
    with pytest.raises(AllocationFault, match="exceeds the claim limit of 32"):
        attempt(TWO, [claim(*requests)]).run()
