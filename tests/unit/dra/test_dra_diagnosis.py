"""Why devices do not satisfy a pod's claims: each rule by itself, counts, examples and bounds."""

import time
from collections.abc import Iterable
from typing import Any

import pytest

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.shares import HeldDevices
from protocols.dra.allocator.types import Node
from protocols.dra.decode import class_of, slice_of
from protocols.dra.diagnosis import nodes
from protocols.dra.diagnosis.diagnose import Diagnosis
from protocols.dra.diagnosis.types import MAX_EXAMPLES, MAX_GROUPS, MAX_TEXT, Case, DiagnosisReport, Group, one_line
from protocols.dra.gates import Gates
from protocols.dra.types import DeviceId
from tests.support.allocator_objects import ANY, DRIVER, Words, claim


def device(name: str, attributes: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    texts = {key: {"string": value} for key, value in (attributes or {}).items()}
    return {"name": name, **({"attributes": texts} if texts else {}), **more}


def slice_(node: str, *devices: dict[str, Any], of: int = 1, **spec: Any) -> Any:
    pool = {"name": node, "generation": 1, "resourceSliceCount": of}
    body = {"driver": DRIVER, "pool": pool, "devices": list(devices), **(spec or {"nodeName": node})}
    return slice_of({"metadata": {"name": f"s-{node}"}, "spec": body})


def counters(pool: str, amount: str) -> Any:
    sets = [{"name": "set", "counters": {"slots": {"value": amount}}}]
    body = {"driver": DRIVER, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 2}, "sharedCounters": sets}
    return slice_of({"metadata": {"name": f"c-{pool}"}, "spec": {**body, "nodeName": pool}})


def consuming(name: str, amount: str) -> dict[str, Any]:
    return device(name, consumesCounters=[{"counterSet": "set", "counters": {"slots": {"value": amount}}}])


def request(name: str = "gpu", *selectors: str, **exactly: Any) -> dict[str, Any]:
    cel = [{"cel": {"expression": selector}} for selector in selectors]
    return {"name": name, "exactly": {"deviceClassName": "any", "selectors": cel, **exactly}}


MODEL_A = class_of({"metadata": {"name": "a"}, "spec": {"selectors": [{"cel": {"expression": "model=A"}}]}})
NODES = tuple(Node(name, {"zone": name}) for name in ("n1", "n2"))


def held(devices: Iterable[DeviceId]) -> HeldDevices:
    return HeldDevices([dict.fromkeys(devices)])


def report(slices: list[Any], *claims: Any, used: dict[str, str] | None = None, **more: Any) -> DiagnosisReport:
    """`used`: claim by `pool/device`."""
    catalog = Catalog()
    for obj in slices:
        catalog.put(obj)
    holders = {DeviceId(DRIVER, *key.split("/")): claim for key, claim in (used or {}).items()}
    settings: dict[str, Any] = {"nodes": NODES, "classes": {"any": ANY, "a": MODEL_A}, **more}
    case = Case(claims, catalog, engine=Words(), used=held(holders), holder=lambda id: holders.get(id, ""), **settings)
    return Diagnosis(case).run()


def reasons(found: DiagnosisReport, subrequest: int = 0) -> list[tuple[str, str, int]]:
    return [(each.rule, each.text, each.count) for each in found.claims[0].subrequests[subrequest].rejected]


def node_reasons(found: DiagnosisReport) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(node.rule, node.text, node.examples) for node in found.nodes]


def test_selectors_of_class_and_request_are_named_with_their_text() -> None:
    slices = [slice_("n1", device("b", {"model": "B"}), device("a", {"model": "A", "size": "s"}), device("x"))]
    found = report(slices, claim(request("gpu", "size=l", deviceClassName="a")))
    assert reasons(found) == [
        ("selector", "selector #0 of class a is false: model=A", 2),
        ("selector", "selector #0 of the request is false: size=l", 1),
    ]
    assert found.claims[0].subrequests[0].rejected[0].examples == (f"{DRIVER}/n1/b", f"{DRIVER}/n1/x")


def test_selector_that_fails_shows_the_error() -> None:
    found = report([slice_("n1", device("a"))], claim(request("gpu", "fail")))
    text = "selector #0 of the request fails: CEL runtime error: no such key: x; the device has"
    text += " neither attributes nor capacity"
    assert reasons(found) == [("selector", text, 1)]


def test_long_selector_is_cut() -> None:
    found = report([slice_("n1", device("a"))], claim(request("gpu", f"x={'y' * 5000}")))
    assert len(reasons(found)[0][1]) < 220


def test_pool_under_update_or_invalid_is_the_reason() -> None:
    half, doubled = slice_("n1", device("a"), of=2), slice_("n2", device("a"), device("a"))
    assert reasons(report([half, doubled], claim(request()))) == [
        ("pool", "its pool is invalid: duplicate device name a", 2),
        ("pool", "its pool is being updated: not all slices of the newest generation are there", 1),
    ]


def test_taint_is_named_unless_it_is_tolerated_or_taints_are_off() -> None:
    tainted = [slice_("n1", device("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]))]
    assert reasons(report(tainted, claim(request()))) == [("taint", "untolerated taint k=v:NoSchedule", 1)]
    tolerating = request(tolerations=[{"key": "k", "operator": "Exists"}])
    assert report(tainted, claim(tolerating)).fitting == ("n1",)
    assert report(tainted, claim(request()), gates=Gates(taints=False)).fitting == ("n1",)


def test_device_in_use_names_its_claim_and_admin_access_ignores_it() -> None:
    slices = [slice_("n1", device("a"))]
    found = report(slices, claim(request()), used={"n1/a": "ns/other"})
    assert found.claims[0].subrequests[0].rejected == (Group("in use", "in use", 1, (f"{DRIVER}/n1/a (ns/other)",)),)
    assert report(slices, claim(request(adminAccess=True)), used={"n1/a": "ns/other"}).fitting == ("n1",)


def test_counters_used_up_by_other_devices() -> None:
    slices = [slice_("n1", consuming("half", "2"), consuming("whole", "4"), of=2), counters("n1", "4")]
    found = report(slices, claim(request()), used={"n1/half": "ns/other"})
    assert reasons(found) == [
        ("counters", "other devices in use leave too little of counter set set", 1),
        ("in use", "in use", 1),
    ]


def test_node_that_is_excluded_missing_or_out_of_reach() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["n9"]}]}]}
    slices = [
        slice_("n1", device("a")),
        slice_("gone", device("a")),
        slice_("net", device("a"), nodeSelector=selector),
    ]
    found = report(slices, claim(request()), nodes=(NODES[1],), excluded={"n1": "Insufficient cpu"})
    assert reasons(found) == [
        ("node", "its node does not exist", 1),
        ("node", "its node does not fit the pod: Insufficient cpu", 1),
        ("node", "no node that fits the pod reaches it", 1),
    ]
    assert node_reasons(found) == [("count", "request gpu needs 1, the node has 0 usable", ("n2",))]


def test_usable_devices_too_few_on_each_node() -> None:
    slices = [slice_("n1", device("a"), device("b")), slice_("n2", device("a"))]
    found = report(slices, claim(request(count=3)))
    subrequest = found.claims[0].subrequests[0]
    assert (subrequest.count, subrequest.devices, subrequest.usable, subrequest.most) == (3, 3, 3, 2)
    assert node_reasons(found) == [
        ("count", "request gpu needs 3, the node has 1 usable", ("n2",)),
        ("count", "request gpu needs 3, the node has 2 usable", ("n1",)),
    ]


def test_node_with_too_few_names_its_most_frequent_reasons() -> None:
    slices = [slice_("n1", device("a"), device("b"), device("c", {"model": "B"})), slice_("n2", device("a"))]
    found = report(slices, claim(request(count=2)), used={"n1/a": "ns/x", "n1/b": "ns/x"})
    assert node_reasons(found) == [
        ("count", "request gpu needs 2, the node has 1 usable", ("n2",)),
        ("count", "request gpu needs 2, the node has 1 usable: 2 in use", ("n1",)),
    ]


def shared(name: str, memory: str, **policy: Any) -> dict[str, Any]:
    capacity = {"memory": {"value": memory, **({"requestPolicy": policy} if policy else {})}}
    return device(name, allowMultipleAllocations=True, capacity=capacity)


def memory(amount: str) -> dict[str, Any]:
    return request(capacity={"requests": {"memory": amount}})


def test_shares_leave_too_little_or_device_is_too_small() -> None:
    slices = [slice_("n1", shared("half", "10Gi"), shared("small", "4Gi"), device("none"))]
    taken = HeldDevices([{DeviceId(DRIVER, "n1", "half"): {f"{DRIVER}/memory": 5 * 2**30 * 10**9}}])
    catalog = Catalog()
    for obj in slices:
        catalog.put(obj)
    case = Case((claim(memory("6Gi")),), catalog, NODES[:1], {"any": ANY}, Words(), taken)
    lacking = "it lacks a requested capacity, has less of it, or its driver allows no such amount"
    assert reasons(Diagnosis(case).run()) == [
        ("capacity", lacking, 2),
        ("capacity", f"other shares leave too little of {DRIVER}/memory", 1),
    ]
    assert report(slices, claim(memory("5Gi"))).fitting == ("n1",)
    assert reasons(report(slices, claim(memory("5Gi"))))[0] == ("capacity", lacking, 2)


def test_device_taken_whole_is_in_use_also_for_shares() -> None:
    found = report([slice_("n1", shared("a", "1Gi"))], claim(memory("1Gi")), used={"n1/a": "ns/x"})
    assert reasons(found) == [("in use", "in use", 1)]


def test_all_devices_requested_while_one_is_in_use() -> None:
    slices = [slice_("n1", device("a"), device("b"))]
    found = report(slices, claim(request(allocationMode="All")), used={"n1/a": "ns/x"}, nodes=NODES[:1])
    assert found.claims[0].subrequests[0].count == 0
    assert node_reasons(found) == [
        ("count", "request gpu asks for all devices, not all that match are usable", ("n1",))
    ]


def test_constraint_that_cannot_be_satisfied_is_named() -> None:
    slices = [slice_("n1", device("a", {"numa": "0"}), device("b", {"numa": "1"}))]
    two = request(count=2)
    match = claim(two, constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    assert node_reasons(report(slices, match, nodes=NODES[:1])) == [
        ("constraint", f"no devices satisfy matchAttribute {DRIVER}/numa over all requests", ("n1",))
    ]
    distinct = claim(two, constraints=[{"distinctAttribute": f"{DRIVER}/none", "requests": ["gpu"]}])
    assert node_reasons(report(slices, distinct, nodes=NODES[:1])) == [
        ("constraint", f"no devices satisfy distinctAttribute {DRIVER}/none over requests gpu", ("n1",))
    ]
    both = claim(two, constraints=[{"matchAttribute": f"{DRIVER}/numa"}, {"distinctAttribute": f"{DRIVER}/numa"}])
    same = [slice_("n1", *(device(name, {"numa": value}) for name, value in (("a", "0"), ("b", "0"), ("c", "1"))))]
    text = "each constraint alone can be satisfied, all together cannot"
    assert node_reasons(report(same, both, nodes=NODES[:1])) == [("constraint", text, ("n1",))]


def test_requests_or_claims_that_need_the_same_device() -> None:
    slices = [slice_("n1", device("a"))]
    text = "requests x, y need the same devices or counters"
    assert node_reasons(report(slices, claim(request("x"), request("y")), nodes=NODES[:1])) == [
        ("together", text, ("n1",))
    ]
    text = "each claim alone finds devices, all claims of the pod together do not"
    found = report(slices, claim(request("x"), name="c"), claim(request("y"), name="d"), nodes=NODES[:1])
    assert node_reasons(found) == [("together", text, ("n1",))]


def test_search_that_found_nothing_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[Any, ...]] = []

    def attempt(options: AttemptOptions) -> Attempt:
        searched.append(options.claims)
        return Attempt(options)

    monkeypatch.setattr(nodes, "Attempt", attempt)
    slices = [slice_("n1", consuming("a", "3"), consuming("b", "3"), of=2), counters("n1", "4")]
    report(slices, claim(request(count=2)), nodes=NODES[:1])
    assert len(searched) == 1
    match = [{"matchAttribute": f"{DRIVER}/numa"}]
    slices = [slice_("n1", device("a", {"numa": "0"}), device("b", {"numa": "1"}))]
    report(slices, claim(request(count=2), constraints=match), nodes=NODES[:1])
    assert len(searched) == 3, "the claim, and its request without the constraint"


def test_shared_counters_for_two_devices_at_once() -> None:
    slices = [slice_("n1", consuming("a", "3"), consuming("b", "3"), of=2), counters("n1", "4")]
    found = report(slices, claim(request(count=2)), nodes=NODES[:1])
    assert node_reasons(found) == [
        ("count", "request gpu finds too few devices: those that are usable one by one exclude each other", ("n1",))
    ]


def test_each_alternative_of_a_request_is_reported() -> None:
    alternatives = [{"name": "two", "deviceClassName": "any", "count": 2}, {"name": "a", "deviceClassName": "a"}]
    found = report([slice_("n1", device("x"))], claim({"name": "gpu", "firstAvailable": alternatives}), nodes=NODES[:1])
    assert [subrequest.request for subrequest in found.claims[0].subrequests] == ["gpu/two", "gpu/a"]
    assert reasons(found, 1) == [("selector", "selector #0 of class a is false: model=A", 1)]
    assert node_reasons(found) == [("count", "no alternative of request gpu finds enough devices", ("n1",))]


def test_missing_class_is_a_fault_of_the_claim() -> None:
    found = report([slice_("n1", device("a"))], claim(request(deviceClassName="none")))
    assert found.claims[0].fault == "request gpu: device class none does not exist"
    assert (found.nodes, found.fitting) == ((), ())


def test_reasons_and_examples_are_bounded() -> None:
    taints = [device(f"d{at}", taints=[{"key": f"k{at}", "effect": "NoSchedule"}]) for at in range(128)]
    slices = [slice_(f"n{at}", *taints) for at in range(4)]
    found = report(slices, claim(request())).claims[0].subrequests[0]
    assert len(found.rejected) == MAX_GROUPS + 1
    assert all(len(each.examples) <= MAX_EXAMPLES for each in found.rejected)
    assert sum(each.count for each in found.rejected) == found.devices == 512


@pytest.mark.parametrize(("size", "everywhere"), [(1000, False), (200, True)])
def test_many_nodes_are_diagnosed_in_linear_time(size: int, everywhere: bool) -> None:
    where: dict[str, Any] = {"allNodes": True} if everywhere else {}
    slices = [slice_(f"n{at}", *(device(f"d{n}") for n in range(32)), **where) for at in range(size)]
    nodes = tuple(Node(f"n{at}", {}) for at in range(size))
    used = {f"n{at}/d{n}": "ns/x" for at in range(size) for n in range(31)}
    catalog = Catalog()
    for obj in slices:
        catalog.put(obj)
    holders = {DeviceId(DRIVER, *key.split("/")): name for key, name in used.items()}
    asked = claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    diagnosis = Diagnosis(Case((asked,), catalog, nodes, {"any": ANY}, Words(), held(holders)))
    list(catalog.pools())
    began = time.process_time()
    for _ in diagnosis.steps():
        pass
    assert time.process_time() - began < 5
    subrequest = diagnosis.report.claims[0].subrequests[0]
    assert (subrequest.devices, subrequest.usable, subrequest.most) == (32 * size, size, size if everywhere else 1)
    assert sum(node.count for node in diagnosis.report.nodes) == size


def test_line_names_frequent_reasons_of_each_request() -> None:
    slices = [slice_("n1", device("a", {"model": "A"}), device("b"), device("c"))]
    found = report(slices, claim(request("gpu", "model=A"), request("any", count=3)), used={"n1/a": "ns/x"})
    assert one_line(found) == (
        "request gpu: of 3 devices 2 selector #0 of the request is false: model=A, 1 in use;"
        " request any: of 3 devices 1 in use, 2 usable, at most 2 on one node where 3 are needed"
    )


def test_line_names_the_claim_of_a_request_that_several_have() -> None:
    claims = [claim(request(), request("own"), name="left"), claim(request(), name="right")]
    parts = one_line(report([slice_("n1", device("a"))], *claims, used={"n1/a": "ns/x"})).split("; ")
    assert [part.split(":")[0] for part in parts[:3]] == [
        "request gpu of claim ns/left",
        "request own",
        "request gpu of claim ns/right",
    ]


def test_line_names_constraint_and_missing_devices() -> None:
    slices = [slice_("n1", device("a", {"numa": "0"}), device("b", {"numa": "1"}))]
    found = report(slices, claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]), nodes=NODES[:1])
    assert one_line(found) == (
        "request gpu: of 2 devices 2 usable, at most 2 on one node where 2 are needed;"
        f" 1 node(s): no devices satisfy matchAttribute {DRIVER}/numa over all requests"
    )
    assert one_line(report([], claim(request()))) == "request gpu: no driver has published a device"


def test_only_promising_nodes_are_searched() -> None:
    pair = [device("a", {"numa": "0"}), device("b", {"numa": "1"})]
    slices = [slice_(f"n{at}", *pair) for at in range(4)]
    asked = claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    found = report(slices, asked, nodes=tuple(Node(f"n{at}", {}) for at in range(4)), searched=1)
    assert [(node.rule, node.count) for node in found.nodes] == [("not searched", 3), ("constraint", 1)]
    assert one_line(found).endswith(f"; 1 node(s): no devices satisfy matchAttribute {DRIVER}/numa over all requests")
    assert "not searched" not in one_line(found)


def test_line_is_bounded() -> None:
    subrequests = [request(f"r{at}", f"x={'y' * 900}") for at in range(32)]
    text = one_line(report([slice_("n1", device("a"))], claim(*subrequests)))
    assert len(text) == MAX_TEXT
    assert text.endswith("...")
