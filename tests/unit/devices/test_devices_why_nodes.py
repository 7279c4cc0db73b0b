"""`nodeplane devices --why POD` rejects the nodes that the scheduler rejects, for the same reasons."""

import itertools
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.model.views import NodeLoad, node_view, pod_view
from actors.scheduler.nodes.node_cache import NOT_READY, UNSCHEDULABLE, UNTOLERATED, reasons
from protocols.dra.gates import Gates
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.scheduling.host_ports import NO_PORTS
from protocols.scheduling.node_selection import NOT_NAMED, NOT_SELECTED
from supervisor.dra.node_rules import NodeRules
from supervisor.dra.why import pod_answer
from supervisor.dra.why_text import answer_parts, reason_of

KEY = "node.kubernetes.io/unschedulable"
CORDONED: Object = {"unschedulable": True}
WRITTEN: Object = {**CORDONED, "taints": [{"key": KEY, "effect": "NoSchedule"}]}
NODES: tuple[Object, ...] = (CORDONED, WRITTEN, {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}, {})
TOLERATIONS: tuple[list[Object], ...] = (
    [],
    [{"key": KEY, "operator": "Exists"}],
    [{"key": KEY, "operator": "Exists", "effect": "NoExecute"}],
    [{"key": "k", "value": "v"}],
    [{"key": "k", "operator": "Unknown", "value": "v"}],
    [{"operator": "Exists"}],
)
GPU = "example.com/gpu"


def node(spec: Object, ready: bool = True, labels: Object | None = None, /, **allocatable: str) -> views.Node:
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"conditions": conditions, "allocatable": {"pods": "10", "cpu": "2", "memory": "1Gi", **allocatable}}
    return cast(
        "views.Node",
        {"kind": "Node", "metadata": {"name": "n", "labels": labels or {}}, "spec": spec, "status": status},
    )


def pod(name: str = "p", phase: str = "Pending", nominated: str = "", **spec: Any) -> views.Pod:
    metadata = {"name": name, "namespace": "ns", "uid": name}
    status = {"phase": phase, "nominatedNodeName": nominated}
    return cast("views.Pod", {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})


def container(port: int = 0, /, **requests: str) -> Object:
    ports = [{"containerPort": 80, "hostPort": port}] if port else []
    return {"name": "c", "resources": {"requests": requests}, "ports": ports}


def filtered(pod: views.Pod, node: views.Node, *placed: views.Pod) -> list[str]:
    """Return what the scheduler's event says."""
    load = NodeLoad(node_view(node))
    for each in placed:
        load.count(pod_view(each))
    return reasons(pod_view(pod), load)


def why(pod: views.Pod, node: views.Node, *placed: views.Pod) -> list[str]:
    return [rejection.text for rejection in NodeRules(pod, placed).rejections(node)]


EVENT = {
    NOT_READY: "not ready",
    UNSCHEDULABLE: "unschedulable",
    UNTOLERATED: "untolerated taint",
    NOT_NAMED: "does not have the name",
    NOT_SELECTED: "does not match",
    NO_PORTS: "no free host port",
}


def as_event(reason: str) -> str:
    """Return the words with which --why begins where the event gives this reason."""
    return EVENT.get(reason, f"{reason}:")


@pytest.mark.parametrize(("spec", "tolerations"), list(itertools.product(NODES, TOLERATIONS)))
def test_cordoned_and_tainted_nodes_are_rejected_when_the_scheduler_rejects_them(
    spec: Object, tolerations: list[Object]
) -> None:
    wanting = pod(tolerations=tolerations)
    assert bool(why(wanting, node(spec))) == bool(filtered(wanting, node(spec)))


def test_cordoned_node_is_worded_as_in_the_event() -> None:
    assert filtered(pod(), node(WRITTEN)) == ["node(s) were unschedulable"]
    assert why(pod(), node(WRITTEN)) == ["unschedulable"]
    tolerating = pod(tolerations=[{"key": KEY, "operator": "Exists"}])
    assert why(tolerating, node(WRITTEN)) == []


CONTAINERS = st.builds(
    container,
    st.sampled_from([0, 0, 8080, 8081]),
    cpu=st.sampled_from(["0", "500m", "2"]),
    memory=st.sampled_from(["0", "512Mi", "1Gi"]),
    **{GPU: st.sampled_from(["0", "1"])},
)


def pinned_to(name: str) -> Object:
    """Return the affinity of a DaemonSet's pod."""
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_name]}}}


PODS = st.builds(
    pod,
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from(["Pending", "Running"]),
    containers=st.lists(CONTAINERS, min_size=1, max_size=2),
    initContainers=st.lists(CONTAINERS, max_size=1),
    tolerations=st.sampled_from(TOLERATIONS),
    nodeSelector=st.sampled_from([{}, {}, {"zone": "a"}]),
    affinity=st.sampled_from([{}, {}, pinned_to("n"), pinned_to("m")]),
)


@given(
    PODS,
    st.lists(PODS, max_size=3, unique_by=lambda each: each["metadata"]["name"]),
    st.sampled_from(NODES),
    st.booleans(),
    st.sampled_from([{}, {"zone": "a"}]),
    st.sampled_from([{}, {GPU: "1"}, {"pods": "2"}]),
)
def test_any_node_is_rejected_for_the_reasons_of_the_event(
    wanting: views.Pod, others: list[views.Pod], spec: Object, ready: bool, labels: Object, allocatable: dict[str, str]
) -> None:
    wanting["metadata"]["uid"] = "own"
    where = node(spec, ready, labels, **allocatable)
    for other in others:
        other["spec"]["nodeName"] = "n"
    found, event = why(wanting, where, *others), filtered(wanting, where, *others)
    assert len(found) == len(event)
    assert all(text.startswith(as_event(reason)) for text, reason in zip(found, event, strict=True)), (found, event)


def test_shortages_name_what_is_requested_and_what_is_free() -> None:
    placed = [pod("a", nodeName="n", containers=[container(cpu="1500m", memory="768Mi")])]
    wanting = pod(containers=[container(cpu="2", memory="512Mi", **{GPU: "1"})])
    assert why(wanting, node({}), *placed) == [
        "Insufficient cpu: requested 2, free 500m",
        "Insufficient example.com/gpu: requested 1, the node has none",
        "Insufficient memory: requested 512Mi, free 256Mi",
    ]
    assert why(pod(), node({}, pods="1"), *placed) == ["Too many pods: 1 allowed"]
    assert why(pod(containers=[container(8080)]), node({}), pod("a", nodeName="n", containers=[container(8080)])) == [
        "no free host port: TCP 8080"
    ]


def test_pods_that_ended_count_nowhere_and_nominated_ones_by_their_priority() -> None:
    wanting = pod(containers=[container(cpu="2")])
    ended = pod("a", "Succeeded", nodeName="n", containers=[container(cpu="2")])
    broken = pod("b", nodeName="n", containers=[7])
    assert why(wanting, node({}), ended, broken) == []
    nominated = pod("c", nominated="n", priority=5, containers=[container(cpu="2")])
    assert why(wanting, node({}), nominated) == ["Insufficient cpu: requested 2, free 0"]
    wanting["spec"]["priority"] = 9
    assert why(wanting, node({}), nominated) == []


def test_backed_resource_need_not_be_on_a_node_that_has_none() -> None:
    wanting = pod(containers=[container(**{GPU: "2"})])
    assert [rejection.text for rejection in NodeRules(wanting, (), backed={GPU}).rejections(node({}))] == []
    (short,) = NodeRules(wanting, (), backed={GPU}).rejections(node({}, **{GPU: "1"}))
    assert short.text == f"Insufficient {GPU}: requested 2, free 1"


def test_node_must_declare_the_features_that_the_pod_needs() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}]
    wanting, able = pod(containers=[{"name": "c", "restartPolicyRules": rules}]), node({})
    able["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
    assert (why(wanting, able), filtered(wanting, able)) == ([], [])
    assert why(wanting, node({})) == ["does not declare RestartAllContainersOnContainerExits"]
    assert filtered(wanting, node({}))


def test_each_node_is_named_with_what_it_lacks() -> None:
    wanting = pod(containers=[container(cpu="3", **{GPU: "1"})])
    objects = [node({}, **{GPU: "4"}), *({**node({}, cpu="8"), "metadata": {"name": f"m{at}"}} for at in range(4))]
    assert reason_of(pod_answer(wanting, objects, Gates())) == (
        f"no node can run it: 4 nodes (m0, m1, m2, ...): Insufficient {GPU}: requested 1, the node has none;"
        " node n: Insufficient cpu: requested 3, free 2"
    )


def test_pod_without_claims_hears_which_nodes_lack_room() -> None:
    wanting = pod(containers=[container(cpu="3")])
    objects = [node({}), {**node({}, cpu="8"), "metadata": {"name": "m"}}]
    lines = "\n".join(map(str, answer_parts(pod_answer(wanting, objects, Gates())))).splitlines()
    assert lines == [
        "pod ns/p waits: the scheduler has not said why yet",
        "it uses no ResourceClaims, so no device is in the way",
        "NODES  RULE       WHY                                    FOR EXAMPLE",
        "1      resources  Insufficient cpu: requested 3, free 2  n",
        "room suffices on m; the scheduler also checks affinity to other pods and topology spread",
    ]
