"""Placement: what fits where, in upstream's words, and never more than a node has."""

import random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.model import changes
from actors.scheduler.model.errors import ObjectUnreadable
from actors.scheduler.model.queue import ANY_ROOM, EARLY_S, Queue
from actors.scheduler.model.views import PodView, needs_scheduling, node_view, pod_view
from actors.scheduler.nodes.node_cache import Cache, summary
from actors.scheduler.nodes.scoring import NodeScorer
from protocols.kinds import views
from protocols.kube.quantity import NANO
from protocols.scheduling.requests import pod_requests
from tests.support.turns import finished


def node(name: str = "n1", ready: str = "True", **allocatable: str) -> views.Node:
    amounts = {"cpu": "2", "memory": "1Gi", "pods": "110"} | {k.replace("__", "/"): v for k, v in allocatable.items()}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": ready}]}
    return cast("views.Node", {"metadata": {"name": name, "labels": {"zone": name}}, "spec": {}, "status": status})


def pod(name: str = "p", limits: dict[str, str] | None = None, **spec: Any) -> views.Pod:
    containers = [{"name": "c", "resources": {"limits": limits or {}}}]
    return cast(
        "views.Pod",
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"containers": containers, **spec},
        },
    )


def cache_of(*nodes: views.Node) -> Cache:
    cache = Cache()
    for item in nodes:
        cache.node(node_view(item))
    return cache


def choose(cache: Cache, view: PodView) -> tuple[str, str]:
    """The best node, or why there is none."""
    fitting, rejected = finished(cache.feasible(view))[0]
    return (
        (NodeScorer(view, {}, random.Random(0)).best(fitting), "")
        if fitting
        else ("", summary(len(rejected), rejected.values()))
    )


def test_an_extended_resource_decides() -> None:
    cache = cache_of(node("n1"), node("n2", example_com__gpu="4"))
    cache.nodes["n2"].view.allocatable["example.com/gpu"] = 4 * NANO
    wanted = pod_view(pod(limits={"example.com/gpu": "3"}))
    assert choose(cache, wanted) == ("n2", "")
    cache.place("n2", wanted)
    other = pod_view(pod("q", limits={"example.com/gpu": "2"}))
    assert choose(cache, other) == ("", "0/2 nodes are available: 2 Insufficient example.com/gpu.")
    assert cache.forget(wanted.uid)
    assert choose(cache, other) == ("n2", "")


def test_words_of_each_filter() -> None:
    cordoned, tainted, away = node("n1"), node("n2"), node("n3", ready="Unknown")
    cordoned["spec"]["unschedulable"] = True
    tainted["spec"]["taints"] = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    assert choose(cache_of(), pod_view(pod()))[1] == "no nodes available to schedule pods"
    assert choose(cache_of(cordoned, tainted, away), pod_view(pod()))[1] == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were not ready,"
        " 1 node(s) were unschedulable."
    )
    elsewhere = pod_view(pod(nodeSelector={"zone": "mars"}))
    assert choose(cache_of(node(), tainted), elsewhere)[1] == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector,"
        " 1 node(s) had untolerated taint(s)."
    )


def test_pod_that_restarts_all_containers_goes_to_a_node_that_can() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}]
    restarting = pod_view(pod(containers=[{"name": "c", "restartPolicyRules": rules}]))
    able = node("n2")
    able["status"]["declaredFeatures"] = ["Other", "RestartAllContainersOnContainerExits"]
    assert choose(cache_of(node("n1"), able), restarting) == ("n2", "")
    assert choose(cache_of(node("n1")), restarting)[1] == (
        "0/1 nodes are available: 1 node declared features check failed - unsatisfied requirements:"
        " RestartAllContainersOnContainerExits."
    )
    cache = cache_of(node("n1"))
    assert choose(cache, pod_view(pod(containers=[{"name": "c"}]))) == ("n1", "")
    assert not choose(cache, restarting)[0], "answers about other pods are none about this one"


def test_a_toleration_opens_a_tainted_node() -> None:
    tainted = node("n2")
    tainted["spec"]["taints"] = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    for toleration in ({"key": "dedicated", "value": "gpu"}, {"operator": "Exists"}):
        assert choose(cache_of(tainted), pod_view(pod(tolerations=[toleration])))[0] == "n2"
    assert choose(cache_of(tainted), pod_view(pod(tolerations=[{"key": "dedicated", "value": "x"}])))[0] == ""


@pytest.mark.parametrize(("ready", "key"), [("False", "not-ready"), ("Unknown", "unreachable")])
def test_pod_of_the_network_goes_to_a_node_that_is_not_ready(ready: str, key: str) -> None:
    absent = node("n1", ready)
    absent["spec"]["taints"] = [{"key": f"node.kubernetes.io/{key}", "effect": "NoSchedule"}]
    for toleration in ({"operator": "Exists"}, {"key": f"node.kubernetes.io/{key}", "operator": "Exists"}):
        assert choose(cache_of(absent), pod_view(pod(tolerations=[toleration]))) == ("n1", "")
    evicted_late = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    assert "not ready" in choose(cache_of(absent), pod_view(pod(tolerations=[evicted_late])))[1]


def test_required_affinity_is_a_choice_of_terms() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["n7"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
    ]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert choose(cache_of(node("n1"), node("n2")), pod_view(pod(affinity=required)))[0] == "n2"


def test_nodes_that_affinity_leaves_out_by_name_count_for_nothing_else() -> None:
    def demanding(*names: list[str]) -> PodView:
        fields = [{"key": "metadata.name", "operator": "In", "values": each} for each in names]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        return pod_view(pod(limits={"cpu": "3"}, affinity=affinity))

    cordoned, full = node("n1"), node("n2")
    cordoned["spec"]["unschedulable"] = True
    cache = cache_of(cordoned, full, node("n3"))
    assert choose(cache, demanding(["n2"], ["n2", "n1"]))[1] == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert "3 node(s) didn't satisfy" in choose(cache, demanding(["n1"], ["n2"]))[1]


def test_requests_count_init_containers_and_sidecars_once() -> None:
    def container(cpu: str, **more: Any) -> views.Container:
        return cast("views.Container", {"resources": {"requests": {"cpu": cpu}}, **more})

    spec: views.PodSpec = {
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "containers": [container("2"), container("1")],
    }
    assert pod_requests(spec) == {"cpu": 6 * NANO, "pods": NANO}


def test_only_unbound_pods_of_this_scheduler_want_placement() -> None:
    assert needs_scheduling(pod(), "default-scheduler")
    assert not needs_scheduling(pod(nodeName="n1"), "default-scheduler")
    assert not needs_scheduling(pod(schedulerName="mine"), "default-scheduler")
    assert not needs_scheduling(pod(schedulingGates=[{"name": "g"}]), "default-scheduler")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3), st.booleans()), max_size=60))
def test_no_node_is_ever_promised_twice(steps: list[tuple[int, int, bool]]) -> None:
    cache, size = cache_of(node("n1", cpu="4"), node("n2", cpu="3")), {"n1": 4 * NANO, "n2": 3 * NANO}
    for number, cpu, leave in steps:
        view = pod_view(pod(f"p{number}", limits={"cpu": str(cpu)}))
        if leave:
            cache.forget(view.uid)
        elif view.uid not in cache.placed and (chosen := choose(cache, view)[0]):
            cache.place(chosen, view)
        for name, load in cache.nodes.items():
            expected = sum(held.requests["cpu"] for at, held in cache.placed.values() if at == name)
            assert load.used.get("cpu", 0) == expected <= size[name]


def tried(queue: Queue, uid: str, now: float, *topics: str) -> None:
    assert queue.start(uid)
    queue.failed(uid, now, frozenset(topics) or ANY_ROOM)


def test_a_pod_that_did_not_fit_waits_for_a_change_and_its_back_off() -> None:
    queue = Queue()
    queue.add("a")
    assert queue.ready(0.0) == ["a"]
    tried(queue, "a", 0.0)
    assert queue.ready(100.0) == []
    assert queue.changed("room")
    assert (queue.ready(0.5), queue.next_at(), queue.ready(1.0)) == ([], 1.0, ["a"])
    waits = []
    for _ in range(5):
        assert queue.start("a")
        queue.retry("a", 0.0)
        waits.append(queue.next_at())
    assert waits == [2.0, 4.0, 8.0, 10.0, 10.0]
    queue.remove("a")
    assert queue.next_at() is None


def test_pods_of_higher_priority_are_tried_first() -> None:
    queue = Queue()
    for uid, priority in (("low", 1), ("first", 5), ("second", 5)):
        queue.add(uid, priority)
    assert queue.ready(0.0) == ["first", "second", "low"]
    assert not queue.is_outranked("low")
    queue.add("urgent", 9)
    assert queue.is_outranked("second")
    assert not queue.is_outranked("urgent")
    assert queue.ready(0.0) == ["urgent", "first", "second", "low"]
    assert queue.start("urgent")
    assert not queue.is_outranked("low")


def test_only_what_can_help_wakes_a_pod() -> None:
    queue = Queue()
    for uid in "ab":
        queue.add(uid)
    tried(queue, "a", 0.0, "devices", "claim ns/c")
    tried(queue, "b", 0.0)
    assert not queue.changed("claim ns/other")
    assert queue.changed("claim ns/c")
    assert queue.ready(9.0) == ["a"]
    assert queue.counts(0.5) == {"active": 0, "backoff": 1, "unschedulable": 1}
    assert queue.changed("room")
    assert queue.ready(9.0) == ["a", "b"]


def test_a_change_during_the_try_is_not_lost() -> None:
    queue = Queue()
    queue.add("a")
    assert queue.start("a")
    assert not queue.start("a")
    assert queue.ready(0.0) == []
    assert not queue.changed("room"), "it is tried already"
    queue.failed("a", 0.0)
    assert queue.ready(1.0) == ["a"]
    assert queue.start("a")
    queue.park("a", 1.0, frozenset())
    assert not queue.changed("room")


def test_woken_pods_do_not_wait_out_their_back_off_while_nothing_else_is_due() -> None:
    queue = Queue()
    for uid, priority in (("a", 0), ("b", 5), ("broken", 9)):
        queue.add(uid, priority)
        for _ in range(5):
            queue.start(uid)
            queue.failed(uid, 0.0)
            queue.changed("room")
    queue.start("broken")
    queue.retry("broken", 0.0)
    assert (queue.ready(0.9), queue.next_at()) == ([], 1.0)
    assert queue.ready(1.0) == ["b"]
    assert queue.start("b")
    assert (queue.ready(1.0), queue.next_at()) == ([], 1.0 + EARLY_S)
    assert queue.ready(1.0 + EARLY_S) == ["a"]
    queue.add("new")
    assert queue.ready(2.0) == ["new"]
    assert queue.ready(10.0) == ["broken", "a", "new"], "an attempt that failed itself waits out its back-off"


def test_a_change_during_the_try_that_cannot_help_counts_for_nothing() -> None:
    queue = Queue()
    queue.add("a")
    for topic, ready in (("room", []), ("devices", ["a"])):
        queue.add("a")
        assert queue.start("a")
        queue.changed(topic)
        queue.failed("a", 0.0, frozenset(("devices", "claim ns/c")))
        assert queue.ready(20.0) == ready


def test_changes_of_more_topics_than_are_remembered_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_CHANGES", 2)
    queue = Queue()
    queue.add("a")
    assert queue.start("a")
    for number in range(3):
        queue.changed(f"claim ns/c{number}")
    queue.failed("a", 0.0)
    assert queue.ready(20.0) == ["a"]
    assert queue.start("a")
    queue.failed("a", 20.0)
    assert queue.ready(40.0) == []


def test_a_promise_ends_with_its_node() -> None:
    cache = cache_of(node("n1"))
    cache.place("n1", pod_view(pod()))
    assert cache.assumed_node("uid-p") == "n1"
    cache.forget_node("n1")
    assert cache.assumed_node("uid-p") == ""
    assert cache.assumed_node("other") == ""


def test_a_heartbeat_changes_nothing_and_a_node_that_returns_remembers_its_pods() -> None:
    cache = cache_of(node("n1"))
    cache.place("n1", pod_view(pod(limits={"cpu": "1"})))
    assert not cache.node(node_view(node("n1")))
    cache.forget_node("n1")
    assert cache.node(node_view(node("n1")))
    assert cache.nodes["n1"].used["cpu"] == NANO
    assert cache.node(node_view(node("n1", ready="False")))
    assert cache.nodes["n1"].used["cpu"] == NANO


def test_image_that_a_node_pulled_makes_no_pod_fit() -> None:
    cache, pulled = cache_of(node("n1")), node("n1")
    pulled["status"]["images"] = [{"names": ["app:1"], "sizeBytes": 100}]
    assert not cache.node(node_view(pulled))
    assert cache.nodes["n1"].view.images == {"app:1": 100}
    pulled["metadata"]["labels"] = {"zone": "other"}
    assert cache.node(node_view(pulled))


def affine(*terms: Any) -> dict[str, Any]:
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["n1"], True),
        ("NotIn", ["n1"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
        ("Gt", ["0"], False),
        ("Lt", ["x"], False),
        ("Near", ["n1"], False),
    ],
)
def test_operators(operator: str, values: list[str] | None, fits: bool) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
    assert bool(choose(cache_of(node("n1")), pod_view(pod(**affine(term))))[0]) == fits


def test_numbers_are_compared() -> None:
    ranked = node("n1")
    ranked["metadata"]["labels"]["rank"] = "5"
    for operator, bound, fits in (("Gt", "4", True), ("Gt", "5", False), ("Lt", "6", True)):
        term = {"matchExpressions": [{"key": "rank", "operator": operator, "values": [bound]}]}
        assert bool(choose(cache_of(ranked), pod_view(pod(**affine(term))))[0]) == fits


def test_an_empty_term_matches_nothing() -> None:
    assert choose(cache_of(node("n1")), pod_view(pod(**affine({}))))[0] == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": 5},
        {"containers": ["x"]},
        {"containers": [{"resources": {"limits": ["cpu"]}}]},
        {"tolerations": ["x"]},
        {"nodeSelector": ["x"]},
        {"affinity": "x"},
        affine("x"),
        affine({"matchExpressions": [{"key": "a", "operator": "In", "values": 5}]}),
    ],
)
def test_wrong_shapes_are_named_not_fatal(spec: Any) -> None:
    with pytest.raises(ObjectUnreadable, match="wrong shape"):
        pod_view({"metadata": {"name": "p", "uid": "u"}, "spec": spec})


def test_nulls_count_as_absent() -> None:
    spec = {"containers": [{"resources": None}], "initContainers": None, "tolerations": None, "affinity": None}
    of_pod: Any = {"metadata": {"name": "p"}, "spec": spec, "status": None}
    of_node: Any = {"metadata": {"name": "n", "labels": None}, "spec": None, "status": None}
    assert pod_view(of_pod).requests == {"pods": NANO}
    assert node_view(of_node).allocatable == {}


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["1", "x", "Always"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["containers", "resources", "limits", "cpu", "affinity", "nodeAffinity", "tolerations", "key"]
            ),
            inner,
            max_size=3,
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["containers", "affinity", "tolerations", "overhead", "nodeSelector"]), junk))
def test_any_spec_is_placed_or_refused(spec: Any) -> None:
    try:
        view = pod_view({"metadata": {"name": "p", "uid": "u"}, "spec": spec})
    except ObjectUnreadable:
        return
    choose(cache_of(node("n1")), view)


def with_ports(name: str, *ports: views.ContainerPort, **spec: Any) -> PodView:
    found = pod(name, **spec)
    found["spec"]["containers"][0]["ports"] = list(ports)
    return pod_view(found)


def test_host_ports_of_two_pods_conflict_by_protocol_and_address() -> None:
    cache = cache_of(node())
    taken: views.ContainerPort = {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}
    cache.place("n1", with_ports("held", taken, {"containerPort": 81}))
    refused = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    others: list[views.ContainerPort] = [
        {"hostIP": "10.0.0.2"},
        {"protocol": "UDP"},
        {"hostPort": 8081},
        {"hostPort": 0},
    ]
    for free in others:
        assert choose(cache, with_ports("p", {**taken, **free})) == ("n1", "")
    equal: list[views.ContainerPort] = [{}, {"hostIP": ""}, {"hostIP": "0.0.0.0"}, {"protocol": "TCP"}]
    for same in equal:
        assert choose(cache, with_ports("p", {**taken, **same})) == ("", refused)
    cache.place("n1", with_ports("every", {"hostPort": 9000}))
    assert choose(cache, with_ports("p", {"hostPort": 9000, "hostIP": "10.0.0.9"})) == ("", refused)
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 9000}]}
    assert choose(cache, with_ports("p", initContainers=[sidecar])) == ("", refused)
    assert choose(cache, with_ports("p", initContainers=[{**sidecar, "restartPolicy": None}])) == ("n1", "")
    cache.forget("uid-held")
    cache.forget("uid-every")
    assert choose(cache, with_ports("p", taken, {"hostPort": 9000})) == ("n1", "")
