"""Which devices a node gives to a pod's claims: the scenarios of allocation, one by one."""

from typing import Any

import pytest

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.plan import AllocatorInputs
from protocols.dra.allocator.result import allocation, first_available_score
from protocols.dra.allocator.types import AllocationFault, Node, NodeFault, TimedOut
from protocols.dra.decode import class_of, slice_of
from protocols.dra.gates import Gates
from protocols.dra.types import DeviceId
from tests.support.allocator_objects import DRIVER, Words, claim

N1 = Node("n1", {"zone": "a"})


def device(name: str, taints: Any = (), consumes: int = 0, **attributes: Any) -> dict[str, Any]:
    kinds = {str: "string", int: "int", bool: "bool"}
    made: dict[str, Any] = {
        "name": name,
        "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()},
    }
    if taints:
        made["taints"] = list(taints)
    if consumes:
        made["consumesCounters"] = [{"counterSet": "set", "counters": {"slots": {"value": str(consumes)}}}]
    return made


def slice_(name: str, *devices: dict[str, Any], pool: str = "n1", of: int = 1, generation: int = 1, **spec: Any) -> Any:
    spec = spec or {"nodeName": pool}
    announced = {"name": pool, "generation": generation, "resourceSliceCount": of}
    body = {"driver": DRIVER, "pool": announced, **({"devices": list(devices)} if devices else {}), **spec}
    return slice_of({"metadata": {"name": name}, "spec": body})


def exactly(**fields: Any) -> dict[str, Any]:
    return {"deviceClassName": "any", **fields}


def selected(word: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": word}}]


def class_named(name: str, *words: str, **spec: Any) -> Any:
    selectors = [entry for word in words for entry in selected(word)]
    return class_of({"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}})


CLASSES = {"any": class_named("any"), "large": class_named("large", "size=large")}


class Used(set[DeviceId]):
    def consumed(self, device: DeviceId) -> None:
        """All are allocated as a whole."""


class World:
    def __init__(self, *slices: Any, used: tuple[str, ...] = (), node: Node = N1) -> None:
        self.catalog = Catalog()
        for obj in slices:
            self.catalog.put(obj)
        self.used = Used(DeviceId(DRIVER, "n1", name) for name in used)
        self.node = node
        self.words = Words()

    def attempt(self, *claims: Any, **more: Any) -> Attempt:
        inputs = AllocatorInputs(self.catalog.view(self.node).pools, self.used, CLASSES, self.words)
        return Attempt(AttemptOptions(claims, inputs, **more))

    def names(self, *claims: Any) -> list[list[str]] | None:
        attempt = self.attempt(*claims)
        return [[pick.device.id.device for pick in picks] for picks in attempt.picks] if attempt.run() else None

    def status(self, asked: Any) -> dict[str, Any]:
        attempt = self.attempt(asked)
        assert attempt.run()
        return allocation(asked, attempt.picks[0], CLASSES, self.node.name)


SIZES = (device("a", size="large"), device("b", size="small"), device("c", size="small"))


@pytest.mark.scenario("S29")
def test_small_and_large_devices_are_found_by_backtracking() -> None:
    world = World(slice_("s", device("a", size="large"), device("b", size="small")))
    large = exactly(selectors=selected("size=large"))
    assert world.names(claim(exactly(), large)) == [["b", "a"]]
    assert world.names(claim(exactly(), name="c1"), claim(large, name="c2")) == [["b"], ["a"]]


@pytest.mark.scenario("S30")
def test_counts_and_all() -> None:
    everything = exactly(allocationMode="All")
    world = World(slice_("s", *SIZES), used=("b",))
    assert world.names(claim(exactly(count=3))) is None
    assert world.names(claim(exactly(count=2))) == [["a", "c"]]
    assert world.names(claim(everything)) is None
    assert world.names(claim(exactly(allocationMode="All", adminAccess=True))) == [["a", "b", "c"]]
    assert world.names(claim(exactly(allocationMode="All", selectors=selected("size=huge")))) is None
    assert World(slice_("s", *SIZES)).names(claim(everything)) == [["a", "b", "c"]]


@pytest.mark.scenario("S30")
def test_a_pool_under_update() -> None:
    half = World(slice_("s", *SIZES, of=2))
    assert half.names(claim(exactly())) is None
    with pytest.raises(AllocationFault) as told:
        half.attempt(claim(exactly(allocationMode="All"))).run()
    assert str(told.value) == (
        f"claim ns/c, request r0: asks for all devices, but resource pool {DRIVER}/n1 is currently being updated"
    )
    half.catalog.put(slice_("t", device("d"), of=2))
    assert half.names(claim(exactly(count=4))) == [["a", "b", "c", "d"]]
    half.catalog.put(slice_("u", device("e"), of=2))
    assert half.names(claim(exactly())) is None, "more slices than announced are an update as well"


@pytest.mark.scenario("S31")
def test_older_generations_and_invalid_pools() -> None:
    world = World(slice_("old", device("x")), slice_("new", device("y"), generation=2))
    assert world.names(claim(exactly(count=2))) is None
    assert world.names(claim(exactly())) == [["y"]]
    world.catalog.remove("new")
    assert world.names(claim(exactly())) == [["x"]], "a driver that starts its generations anew"
    doubled = World(slice_("s", device("x"), of=2), slice_("t", device("x"), of=2))
    with pytest.raises(NodeFault, match=r"^invalid resource pools were encountered$"):
        doubled.attempt(claim(exactly())).run()
    with pytest.raises(AllocationFault, match=r"is currently invalid$"):
        doubled.attempt(claim(exactly(allocationMode="All"))).run()


def test_a_newer_generation_on_another_node_makes_a_pool_obsolete() -> None:
    mine, other = slice_("s", device("x"), pool="p", nodeName="n1"), slice_("t", device("y"), pool="p", nodeName="n2")
    world = World(mine, slice_("t", device("y"), pool="p", generation=2, nodeName="n2"))
    assert world.names(claim(exactly())) is None
    assert World(mine, other).names(claim(exactly())) is None, "two slices where one is announced"


def alternatives(*each: dict[str, Any]) -> dict[str, Any]:
    return {"name": "req", "firstAvailable": [{"name": f"sub{at + 1}", **one} for at, one in enumerate(each)]}


@pytest.mark.scenario("S32")
def test_the_second_alternative_where_the_first_is_impossible() -> None:
    world = World(slice_("s", *SIZES))
    config = [
        {"requests": [name], "opaque": {"driver": DRIVER, "parameters": {"for": name}}}
        for name in ("req/sub1", "req/sub2", "req")
    ]
    only_first = [{"requests": ["req/sub1"], "matchAttribute": f"{DRIVER}/none"}]
    asked = claim(
        alternatives(exactly(selectors=selected("size=huge")), exactly(count=2)), config=config, constraints=only_first
    )
    status = world.status(asked)
    assert [entry["request"] for entry in status["devices"]["results"]] == ["req/sub2", "req/sub2"]
    assert [entry["requests"] for entry in status["devices"]["config"]] == [["req/sub2"], ["req"]]
    attempt = world.attempt(asked)
    assert attempt.run()
    assert first_available_score(asked.requests, attempt.picks[0]) == 7


@pytest.mark.scenario("S33")
def test_no_more_than_32() -> None:
    many = slice_("s", *(device(f"d{at:02}") for at in range(40)))
    with pytest.raises(
        AllocationFault, match=r"^claim ns/c: number of requested devices 33 exceeds the claim limit of 32$"
    ):
        World(many).attempt(claim(exactly(count=33))).run()
    found = World(many).names(claim(exactly(count=30), alternatives(exactly(count=3), exactly(count=2))))
    assert found is not None
    assert len(found[0]) == 32
    with pytest.raises(AllocationFault, match="requested devices 40 exceeds"):
        World(many).attempt(claim(exactly(allocationMode="All"))).run()


@pytest.mark.scenario("S37")
def test_nodes_where_pods_of_the_claim_can_run() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert World(slice_("s", device("x"))).status(claim(exactly()))["nodeSelector"] == {"nodeSelectorTerms": [by_name]}
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    near = slice_("s", device("x"), pool="net", nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [zone]}]})
    merged = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    assert World(near).status(claim(exactly()))["nodeSelector"] == merged
    assert World(near, node=Node("n2", {"zone": "b"})).names(claim(exactly())) is None
    assert "nodeSelector" not in World(slice_("s", device("x"), allNodes=True)).status(claim(exactly()))


@pytest.mark.scenario("S38")
def test_a_failing_selector_ends_the_attempt_only_when_evaluated() -> None:
    world = World(slice_("s", *SIZES))
    with pytest.raises(AllocationFault, match=r"^claim ns/c: selector #0: CEL runtime error: no such key: x$"):
        world.attempt(claim(exactly(selectors=selected("fail")))).run()
    CLASSES["broken"] = class_named("broken", "size=small", "fail")
    with pytest.raises(AllocationFault, match=r"^class broken: selector #1: CEL runtime error"):
        world.attempt(claim(exactly(deviceClassName="broken"))).run()
    seen = World(slice_("s", *SIZES))
    assert seen.names(claim(exactly(selectors=selected("size=large")))) == [["a"]]
    assert seen.words.asked == ["a"]


@pytest.mark.scenario("S40")
def test_taints_and_tolerations() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    world = World(slice_("s", device("x", taints=[taint])))
    assert world.names(claim(exactly())) is None
    assert world.names(claim(exactly(tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]))) == [["x"]]
    assert world.names(claim(exactly(tolerations=[{"key": "k", "operator": "Equal", "value": "w"}]))) is None
    assert world.names(claim(exactly(adminAccess=True))) is None, "admin access is not above taints"
    soft = World(slice_("s", device("x", taints=[{**taint, "effect": "None"}, {**taint, "effect": "Later"}])))
    assert soft.names(claim(exactly())) == [["x"]]
    kept = world.status(claim(exactly(tolerations=[{"key": "k", "value": "v"}])))
    assert kept["devices"]["results"][0]["tolerations"] == [{"key": "k", "value": "v"}]


@pytest.mark.scenario("S28")
def test_match_attribute() -> None:
    numa = [{"matchAttribute": f"{DRIVER}/numa"}]
    world = World(slice_("s", device("a", numa=0), device("b", numa=1), device("c", numa=1), device("d")))
    assert world.names(claim(exactly(count=2), constraints=numa)) == [["b", "c"]]
    assert world.names(claim(exactly(), exactly(count=2), constraints=[{**numa[0], "requests": ["r1"]}])) == [
        ["a", "b", "c"]
    ]
    assert (
        World(slice_("s", device("a", numa=0), device("b", numa="0"))).names(claim(exactly(count=2), constraints=numa))
        is None
    ), "a number is not a text"
    with pytest.raises(AllocationFault, match=r"because a claim constraint would not be satisfied$"):
        world.attempt(claim(exactly(allocationMode="All"), constraints=numa)).run()


def test_distinct_attribute_within_one_request_too() -> None:
    constraints = [{"distinctAttribute": f"{DRIVER}/card"}]
    cards = slice_("s", device("a", card=0), device("b", card=0), device("c", card=1), device("d", card=1))
    assert World(cards).names(claim(exactly(count=2), constraints=constraints)) == [["a", "c"]]
    assert World(cards).names(claim(exactly(count=3), constraints=constraints)) is None


def counted(*devices: dict[str, Any], slots: int) -> tuple[Any, Any]:
    sets = [{"name": "set", "counters": {"slots": {"value": str(slots)}}}]
    return slice_("counters", of=2, sharedCounters=sets, nodeName="n1"), slice_("devices", *devices, of=2)


def test_partitions_share_counters() -> None:
    whole, halves = device("whole", consumes=4), [device("half-1", consumes=2), device("half-2", consumes=2)]
    slices = counted(whole, *halves, slots=4)
    assert World(*slices).names(claim(exactly())) == [["whole"]]
    assert World(*slices).names(claim(exactly(count=2))) == [["half-1", "half-2"]]
    assert World(*slices, used=("half-1",)).names(claim(exactly())) == [["half-2"]]
    assert World(*slices, used=("half-1",)).names(claim(exactly(count=2))) is None
    assert World(*slices, used=("whole",)).names(claim(exactly(adminAccess=True))) == [["whole"]]


def test_counters_of_devices_on_other_nodes_count() -> None:
    sets = [{"name": "set", "counters": {"slots": {"value": "3"}}}]
    here = {**device("here", consumes=2), "nodeName": "n1"}
    there = {**device("there", consumes=2), "nodeName": "n2"}
    slices = (
        slice_("c", of=2, pool="p", sharedCounters=sets, allNodes=True),
        slice_("d", here, there, of=2, pool="p", perDeviceNodeSelection=True),
    )
    world = World(*slices)
    assert world.names(claim(exactly())) == [["here"]]
    world.used = Used({DeviceId(DRIVER, "p", "there")})
    assert world.names(claim(exactly())) is None


@pytest.mark.parametrize(
    ("consumes", "fault"),
    [
        ({"counterSet": "none", "counters": {"slots": {"value": "1"}}}, "counter set none not found"),
        ({"counterSet": "set", "counters": {"x": {"value": "1"}}}, "counter x not found in counter set set"),
    ],
)
def test_devices_that_name_counters_nobody_has(consumes: dict[str, Any], fault: str) -> None:
    world = World(*counted({"name": "x", "consumesCounters": [consumes]}, slots=1))
    assert [pool.pool.fault for pool in world.catalog.view(N1).pools] == [fault]
    with pytest.raises(NodeFault):
        world.attempt(claim(exactly())).run()


def test_admin_access_minds_no_use_but_takes_no_device_twice() -> None:
    world = World(slice_("s", device("a"), device("b")), used=("a", "b"))
    admin = exactly(adminAccess=True)
    assert world.names(claim(admin, admin)) == [["a", "b"]]
    assert world.names(claim(admin, admin, admin)) is None
    free = World(slice_("s", device("a")))
    assert free.names(claim(admin, name="c1"), claim(exactly(), name="c2")) == [["a"], ["a"]], "each has its own table"
    assert free.status(claim(admin))["devices"]["results"][0]["adminAccess"] is True


def test_config_of_class_first_once_and_with_all_its_requests() -> None:
    opaque = {"driver": DRIVER, "parameters": {"a": 1}}
    CLASSES["configured"] = class_named("configured", config=[{"opaque": opaque}])
    both = [{"requests": ["r0", "r1"], "opaque": {"driver": DRIVER, "parameters": {"b": 2}}}]
    asked = claim(exactly(deviceClassName="configured"), exactly(deviceClassName="configured"), config=both)
    config = World(slice_("s", *SIZES)).status(asked)["devices"]["config"]
    assert [(entry["source"], entry["requests"]) for entry in config] == [
        ("FromClass", ["r0", "r1"]),
        ("FromClaim", ["r0", "r1"]),
    ]


def test_config_past_the_limit_of_the_api_is_not_left_out() -> None:
    opaque = {"driver": DRIVER, "parameters": {"a": 1}}
    for name in ("one", "two"):
        CLASSES[name] = class_named(name, config=[{"opaque": opaque}] * 32)
    own = [{"requests": [], "opaque": opaque}]
    asked = claim(exactly(deviceClassName="one"), exactly(deviceClassName="two"), config=own)
    config = World(slice_("s", *SIZES)).status(asked)["devices"]["config"]
    assert (len(config), config[-1]["source"]) == (65, "FromClaim")


def test_pools_with_binding_conditions_come_last_and_conditions_are_allocated() -> None:
    late = {**device("a"), "bindingConditions": ["x"], "bindingFailureConditions": ["y"]}
    world = World(slice_("s", late, pool="a", nodeName="n1"), slice_("t", device("b"), pool="b", nodeName="n1"))
    assert world.names(claim(exactly())) == [["b"]]
    (result,) = World(slice_("s", late)).status(claim(exactly()))["devices"]["results"]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["x"], ["y"])


@pytest.mark.parametrize("asked", [exactly(), exactly(allocationMode="All")])
def test_devices_with_binding_conditions_are_left_alone_while_the_gate_is_off(asked: dict[str, Any]) -> None:
    late = {**device("a"), "bindingConditions": ["x"], "bindingFailureConditions": ["y"]}
    world = World(slice_("s", late, device("b")))
    inputs = AllocatorInputs(world.catalog.view(N1).pools, world.used, CLASSES, world.words, Gates(binding=False))
    attempt = Attempt(AttemptOptions((claim(asked),), inputs))
    assert attempt.run()
    assert [pick.device.id.device for pick in attempt.picks[0]] == ["b"]


def test_device_that_binds_to_its_node_selects_that_node_alone() -> None:
    late = {**device("a"), "bindsToNode": True, "bindingConditions": ["x"], "bindingFailureConditions": ["y"]}
    status = World(slice_("s", late, allNodes=True)).status(claim(exactly()))
    (term,) = status["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == ["n1"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (claim(exactly(deviceClassName="")), "missing device class name (unsupported request type?)"),
        (claim(exactly(deviceClassName="x")), "could not retrieve device class x: not found"),
        (claim(exactly(selectors=[{}])), "selector #0: CEL expression empty (unsupported selector type?)"),
        (claim(exactly(allocationMode="Some")), "unsupported count mode Some"),
        (claim(exactly(), constraints=[{}]), "constraint #0: empty constraint (unsupported constraint type?)"),
    ],
)
def test_what_cannot_be_read_is_named(asked: Any, words: str) -> None:
    with pytest.raises(AllocationFault, match=r"^claim ns/c") as told:
        World(slice_("s", device("a"))).attempt(asked).run()
    assert words in str(told.value)


def test_equal_devices_are_tried_once() -> None:
    """Without telling them apart this would be 2^40 combinations."""
    equal = slice_("s", *(device(f"d{at:02}", numa=at % 2) for at in range(40)))
    constraints = [{"matchAttribute": f"{DRIVER}/numa"}]
    assert World(equal).names(claim(exactly(count=21), constraints=constraints)) is None
    found = World(equal).names(claim(exactly(count=20), constraints=constraints))
    assert found is not None
    assert len(found[0]) == 20


def test_advance_past_its_steps_raises_timed_out() -> None:
    """Sums of unlike powers: no two choices leave the same counters."""
    unlike = counted(*(device(f"d{at:02}", consumes=2**50 + 2**at) for at in range(40)), slots=12 * 2**50)
    attempt = World(*unlike).attempt(claim(exactly(count=12)), steps=10_000)
    assert attempt.advance(100) is None
    with pytest.raises(TimedOut):
        attempt.run()


def of_gpus(gpus: int, parts: int, slots: int) -> list[Any]:
    """Partitions of one slot and up, each of its own size, and counters of each gpu."""
    sets = [{"name": f"g{gpu}", "counters": {"slots": {"value": str(slots)}}} for gpu in range(gpus)]
    made = [device(f"g{gpu}p{part}", uuid=f"{gpu}-{part}") for gpu in range(gpus) for part in range(parts)]
    for at, each in enumerate(made):
        amount = {"slots": {"value": str(at % parts + 2)}}
        each["consumesCounters"] = [{"counterSet": f"g{at // parts}", "counters": amount}]
    return [
        slice_("sets", of=2, nodeName="n1", sharedCounters=sets),
        slice_("devices", *made, of=2, nodeName="n1"),
    ]


def in_groups_of_seven() -> Any:
    return slice_("s", *(device(f"d{at:02}", uuid=f"u{at}", numa=at // 7) for at in range(64)))


def many(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "exactly": exactly(**fields)} for name in names]


ONE_NUMA = [{"matchAttribute": f"{DRIVER}/numa"}]
UNLIKE = [{"distinctAttribute": f"{DRIVER}/value"}]


@pytest.mark.parametrize(
    ("slices", "asked"),
    [
        (of_gpus(1, 32, 20), claim(exactly(count=7))),
        (of_gpus(8, 4, 5), claim(exactly(count=17))),
        ([in_groups_of_seven()], claim(exactly(count=8), constraints=ONE_NUMA)),
        ([in_groups_of_seven()], claim(*many(*"abcdefgh"), constraints=ONE_NUMA)),
        ([in_groups_of_seven()], claim(*many("a", "b", count=4), constraints=ONE_NUMA)),
        (
            [slice_("s", *(device(f"d{at}", uuid=f"u{at}", value=at % 20) for at in range(100)))],
            claim(exactly(count=21), constraints=UNLIKE),
        ),
        ([in_groups_of_seven()], claim(*many("a", "b", count=3), *many("z", selectors=selected("numa=99")))),
    ],
)
def test_search_of_impossible_claims_ends_after_few_steps(slices: list[Any], asked: Any) -> None:
    """Upstream's backtracking cases and their like; without dead ends each takes millions of steps."""
    attempt = World(*slices).attempt(asked)
    assert not attempt.run()
    assert attempt.steps < 10_000


def test_many_claims_do_not_recurse() -> None:
    world = World(slice_("s", *(device(f"d{at:03}") for at in range(128))))
    found = world.names(*(claim(exactly(count=16), name=f"c{at}") for at in range(8)))
    assert found is not None
    assert len({name for names in found for name in names}) == 128


def test_an_unchanged_device_keeps_what_selectors_said_of_it() -> None:
    world = World(slice_("s", *SIZES))
    asked = claim(exactly(selectors=selected("size=small")))
    assert world.names(asked) == [["b"]]
    world.catalog.put(slice_("s", *SIZES, generation=2))
    assert world.names(asked) == [["b"]]
    assert world.words.asked == ["a", "b"]
    world.catalog.put(slice_("s", device("a", size="small"), *SIZES[1:], generation=3))
    assert world.names(asked) == [["a"]]
