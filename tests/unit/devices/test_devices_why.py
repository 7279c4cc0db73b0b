"""`nodeplane devices --why POD`: from the objects of an API to the text."""

from typing import Any, cast

import pytest

from protocols.dra.gates import Gates
from protocols.kinds import views
from protocols.kube.meta import Object
from supervisor.base.errors import SupervisorError
from supervisor.dra.node_rules import NodeRules
from supervisor.dra.why import PodAnswer, pod_answer
from supervisor.dra.why_text import answer_parts, reason_of
from tests.support.dra_objects import device, slice_object

GATES = Gates(True, True)
DRIVER = "d.example.com"
MODEL_A = f'device.attributes["{DRIVER}"].model == "A"'
FALSE = f"selector #0 of the request is false: {MODEL_A}"[:77] + "..."


def node(name: str, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    conditions = [{"type": "Ready", "status": str(ready)}]
    metadata = {"name": name, "labels": labels or {}}
    status = {"conditions": conditions, "allocatable": {"pods": "110", "cpu": "4"}}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def exclusion(pod: views.Pod, node: Object) -> str:
    return ", ".join(rejection.text for rejection in NodeRules(pod, ()).rejections(cast("views.Node", node)))


def class_object() -> Object:
    return {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


def claim(name: str, *results: str, selector: str = "", count: int = 1, node_name: str = "") -> Object:
    exactly: Object = {"deviceClassName": "gpu", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    devices = [dict(zip(("driver", "pool", "device"), result.split("/"), strict=True)) for result in results]
    by_name = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    where = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": by_name}]}} if node_name else {}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": devices}, **where}} if devices else {},
    }


def pod(*claims: str, message: str = "0/2 nodes are available", **spec: Any) -> views.Pod:
    conditions = [{"type": "PodScheduled", "status": "False", "message": message}]
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    metadata = {"name": "p", "namespace": "ns", "uid": "p"}
    return cast(
        "views.Pod",
        {"metadata": metadata, "spec": {"resourceClaims": entries, **spec}, "status": {"conditions": conditions}},
    )


def world(*more: Object) -> list[Object]:
    models = [device("dev-0", {"model": "A"}), device("dev-1", {"model": "B"})]
    slices = [slice_object(f"s-{name}", models, pool=name, nodeName=name) for name in ("n1", "n2")]
    return [class_object(), *slices, node("n1"), node("n2"), *more]


def text(found: PodAnswer) -> str:
    return "\n".join(map(str, answer_parts(found)))


def test_pending_claim_shows_rules_counts_and_nodes() -> None:
    wanted, other = claim("c", selector=MODEL_A, count=2), claim("other", f"{DRIVER}/n1/dev-0")
    found = pod_answer(pod("c"), world(wanted, other), GATES)
    lines = text(found).splitlines()
    assert lines[:3] == [
        "pod ns/p waits: 0/2 nodes are available",
        "claim ns/c: pending",
        "request r: 2 of class gpu; of 4 devices 1 usable, at most 1 on one node",
    ]
    assert lines[4].split("  ")[-1] == f"{DRIVER}/n1/dev-1, {DRIVER}/n2/dev-1"
    assert lines[-2:] == [
        f"1      count  request r needs 2, the node has 0 usable: 1 in use, 1 {FALSE}  n1",
        f"1      count  request r needs 2, the node has 1 usable: 1 {FALSE}" + " " * 12 + "n2",
    ]
    groups = found.report.claims[0].subrequests[0].rejected
    assert [(group.rule, group.count) for group in groups] == [("selector", 2), ("in use", 1)]
    assert groups[1].examples == (f"{DRIVER}/n1/dev-0 (ns/other)",)


def test_claim_that_fits_no_node_has_a_reason_for_each() -> None:
    taint = {"kind": "DeviceTaintRule", "metadata": {"name": "t"}}
    taint["spec"] = {"deviceSelector": {"pool": "n2"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    held = claim("other", f"{DRIVER}/n1/dev-0", f"{DRIVER}/n1/dev-1")
    found = pod_answer(pod("c"), world(claim("c", count=1), held, taint), GATES)
    assert reason_of(found) == (
        "no node can run it: node n1: request r needs 1, the node has 0 usable: 2 in use;"
        " node n2: request r needs 1, the node has 0 usable: 2 untolerated taint k:NoSchedule;"
        " request r: of 4 devices 2 in use, 2 untolerated taint k:NoSchedule"
    )
    assert reason_of(found, "ns/c") == reason_of(found)
    assert reason_of(found, "ns/another").startswith("no node can run it: node n1: ")


def test_nodes_without_devices_and_nodes_without_room_are_named() -> None:
    held, busy = claim("other", f"{DRIVER}/n1/dev-0", f"{DRIVER}/n1/dev-1"), {"requests": {"cpu": "2"}}
    loaded = {"kind": "Pod", "metadata": {"name": "q", "namespace": "ns", "uid": "q"}, "status": {}}
    loaded["spec"] = {"nodeName": "n2", "containers": [{"name": "main", "resources": busy}]}
    asking = pod("c", containers=[{"name": "main", "resources": {"requests": {"cpu": "3"}}}])
    found = pod_answer(asking, world(claim("c"), held, loaded), GATES)
    assert reason_of(found).startswith(
        "no node can run it: node n2: Insufficient cpu: requested 3, free 2;"
        " node n1: request r needs 1, the node has 0 usable: 2 in use; request r: of 4 devices 2 in use, 2 its node"
    )


def test_devices_as_patched_are_judged() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    patch = {
        "kind": "ResourceSlicePatch",
        "metadata": {"name": "p"},
        "spec": {"devices": {"filter": {"pool": "n1"}, "taints": [taint]}},
    }
    wanted = claim("c")
    found = pod_answer(pod("c"), world(wanted, patch), GATES)
    assert found.report.claims[0].subrequests[0].rejected[0].text == "untolerated taint k:NoSchedule"
    assert found.report.fitting == ("n2",)
    assert "room and devices suffice on n2; the scheduler also checks affinity to other pods" in text(found)


def test_missing_claims_and_bound_pods_are_told_apart() -> None:
    found = pod_answer(pod("gone"), world(), GATES)
    assert "claim ns/gone: does not exist" in text(found)
    assert "suffice" not in text(found)
    entry = {"name": "e", "resourceClaimTemplateName": "t"}
    waiting = pod(resourceClaims=[entry])
    assert "claim ns/e: the claim of this entry is not created yet" in text(pod_answer(waiting, world(), GATES))
    assert "no device is in the way" in text(pod_answer(pod(), world(), GATES))
    bound = pod("c", nodeName="n1")
    lines = text(pod_answer(bound, world(claim("c", f"{DRIVER}/n1/dev-0")), GATES)).splitlines()
    assert lines == ["pod ns/p is bound to node n1", f"claim ns/c: allocated: {DRIVER}/n1/dev-0"]


def test_claim_that_is_being_deleted_is_not_said_to_fit() -> None:
    ending = claim("c")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = text(pod_answer(pod("c"), world(ending), GATES))
    assert "claim ns/c: is being deleted" in found
    assert "suffice" not in found


def test_selector_with_missing_key_names_the_keys_of_the_device() -> None:
    wanted = claim("c", selector=f'device.attributes["{DRIVER}"].modle == "A"')
    answer = pod_answer(pod("c"), world(wanted), GATES)
    (group,) = answer.report.claims[0].subrequests[0].rejected
    keys = f"no such key: modle; the device has attributes {DRIVER}/model"
    assert keys in group.text
    assert group.text in reason_of(answer), "the first line has all of it"


def test_devices_that_are_being_prepared_are_named_with_their_conditions() -> None:
    held = claim("c", f"{DRIVER}/n1/dev-0", node_name="n1")
    (result,) = held["status"]["allocation"]["devices"]["results"]
    result |= {"bindingConditions": ["x/attached", "x/flashed"], "bindingFailureConditions": ["x/failed"]}
    done = {key: result[key] for key in ("driver", "pool", "device")}
    held["status"]["devices"] = [{**done, "conditions": [{"type": "x/attached", "status": "True"}]}]
    line = f"claim ns/c: allocated: {DRIVER}/n1/dev-0; not ready: dev-0 x/flashed"
    assert line in text(pod_answer(pod("c"), world(held), GATES)).splitlines()
    assert "not ready" not in text(pod_answer(pod("c", nodeName="n1"), world(held), GATES))


def test_claim_allocated_elsewhere_excludes_nodes() -> None:
    held, wanted = claim("held", f"{DRIVER}/n1/dev-0", node_name="n1"), claim("c")
    found = pod_answer(pod("held", "c", nodeSelector={"zone": "a"}), world(held, wanted, node("n3")), GATES)
    rules = {each.text for each in found.report.claims[0].subrequests[0].rejected}
    assert "its node does not fit the pod: does not match the pod's nodeSelector: no label zone" in rules
    found = pod_answer(pod("held", "c"), world(held, wanted), GATES)
    texts = [each.text for each in found.report.claims[0].subrequests[0].rejected]
    assert "its node does not fit the pod: claim ns/held is allocated for other nodes" in texts
    assert found.report.fitting == ("n1",)


@pytest.mark.parametrize(
    ("found", "spec", "reason"),
    [
        (node("n", ready=False), {}, "not ready"),
        (node("n", unschedulable=True), {}, "unschedulable"),
        (node("n"), {"nodeSelector": {"a": "b"}}, "does not match the pod's nodeSelector: no label a"),
        (
            node("n", labels={"a": "c"}),
            {"nodeSelector": {"a": "b"}},
            "does not match the pod's nodeSelector: label a is not b",
        ),
        (node("n", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]), {}, "untolerated taint k=v:NoExecute"),
        (node("n", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), {}, ""),
        (
            node("n", taints=[{"key": "k", "effect": "NoSchedule"}]),
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            "",
        ),
        (node("n", labels={"a": "b"}), {"nodeSelector": {"a": "b"}}, ""),
    ],
)
def test_node_exclusion_names_first_reason(found: Object, spec: dict[str, Any], reason: str) -> None:
    assert exclusion(pod(**spec), found) == reason


def test_node_affinity_excludes_nodes() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wanting = pod(affinity={"nodeAffinity": required})
    assert exclusion(wanting, node("n")) == "does not match the pod's node affinity"
    assert exclusion(wanting, node("n", labels={"zone": "a"})) == ""


def test_objects_of_wrong_shape_are_an_error_of_one_line() -> None:
    broken = claim("c")
    broken["spec"]["devices"]["requests"] = [7]
    with pytest.raises(SupervisorError, match="wrong shape"):
        pod_answer(pod("c"), world(broken), GATES)


def test_newest_class_backs_an_extended_resource_and_init_containers_borrow() -> None:
    def kind(name: str, created: str) -> Object:
        metadata = {"name": name, "creationTimestamp": created}
        return {"kind": "DeviceClass", "metadata": metadata, "spec": {"extendedResourceName": "example.com/gpu"}}

    def container(name: str, count: str) -> Object:
        return {"name": name, "resources": {"limits": {"example.com/gpu": count}}}

    classes = [kind("a", "2026-01-01T00:00:00Z"), kind("b", "2026-01-02T00:00:00Z")]
    asking = pod(containers=[container("main", "1")], initContainers=[container("init", "2")])
    found = pod_answer(asking, [*classes, *world()[1:]], GATES)
    subrequests = [
        (subrequest.request, subrequest.class_name, subrequest.count)
        for subrequest in found.report.claims[0].subrequests
    ]
    assert subrequests == [
        ("example.com/gpu of container init", "b", 1),
        ("example.com/gpu of container main", "b", 1),
    ]
    crowd = pod(containers=[container(f"c{at}", "1") for at in range(33)])
    with pytest.raises(SupervisorError, match="need 33 requests"):
        pod_answer(crowd, [*classes, *world()[1:]], GATES)


def test_extended_resources_backed_by_a_class_are_judged_as_a_claim() -> None:
    backed = class_object() | {"spec": {"extendedResourceName": "example.com/gpu"}}
    container = {"name": "main", "resources": {"limits": {"example.com/gpu": "3", "cpu": "1"}}}
    asking = pod(containers=[container])
    found = pod_answer(asking, [backed, *world()[1:]], GATES)
    (subrequest,) = found.report.claims[0].subrequests
    assert (subrequest.request, subrequest.count, subrequest.usable, subrequest.most) == (
        "example.com/gpu of container main",
        3,
        4,
        2,
    )
    assert "claim ns/<extended-resources>: not created: the scheduler creates it for extended resources" in text(found)
    asking["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "made"}
    gone = pod_answer(asking, [backed, *world()[1:]], GATES)
    assert (gone.claims, gone.report) == (found.claims, found.report)
    asking["spec"]["nodeName"] = "n1"
    held = claim("made", f"{DRIVER}/n1/dev-0")
    assert "claim ns/made: allocated" in text(pod_answer(asking, world(held), GATES))
